"""Secrets are taken out of captures before they are written into a bundle that may leave the site."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from topology.capture import Captured, CaptureState, HostCapture

GONE = "<removed>"
_WHOLE_FILES = re.compile(
    r"(?:/environ$|/etc/shadow|/etc/gshadow|/\.ssh/|id_(?:rsa|dsa|ecdsa|ed25519)$|\.(?:pem|key|p12|pfx|kdbx)$"
    r"|/\.netrc$|/\.aws/|/\.kube/config$|/\.docker/config\.json$|credentials?$|/munge\.key$)"
)
_WORDS = (
    r"(?:token|secret|jwt|passw(?:or)?d|passphrase|sshpass|_pass|_pwd|authorization|credentials?"
    r"|(?:api|access|auth|account|private|m|sm)[_-]?key)"
)
_VALUE = r"(?:\\\"(?:(?!\\\")[^\n]){0,4096}\\\"|\"(?:[^\"\\\n]|\\.){0,4096}\"|'[^'\n]{0,4096}'|[^\s,;\"'\\]+)"
# NAME=value and "name": "value", also inside a quoted string; --name value, if it is a flag. What stands before the word
# is not looked for, so that a long line costs no more than its length.
_SETTING = re.compile(
    rf"(?P<key>{_WORDS}[\w.-]{{0,40}}(?:(?P<set>\\?[\"']?\s{{0,4}}[=:]\s{{0,4}})|\s{{1,4}})){_VALUE}",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(?:^|\s)--?[\w-]*\Z")
_LONGEST_FLAG = 40
_SSHPASS = re.compile(r"(\bsshpass\s{1,4}-p\s{0,4})\S+")
SHORTEST = 8
_SHORT = 200
_HINTS = (
    *("akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "hf_", "xox", "eyj", "nvapi-", "sk-"),
    *(
        "aiza",
        "://",
        "bearer",
        "basic",
        "token",
        "secret",
        "jwt",
        "passw",
        "passphrase",
        "sshpass",
        "_pass",
        "_pwd",
    ),
    *("_key", "-key", "apikey", "accesskey", "authkey", "accountkey", "privatekey", "mkey", "smkey"),
    *("private key", "certificate", "credential", "authoriz"),
)
"""Lower-case pieces of which every line with a secret that is recognised has one."""
_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]{0,40}(?:PRIVATE KEY|CERTIFICATE)-----.*?(?:-----END [A-Z ]{0,60}-----|\Z)", re.DOTALL
)
_KNOWN = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # AWS
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}\b|\bglpat-[\w-]{20,}\b|\bhf_[A-Za-z0-9]{30,}\b|\bxox[abprs]-[\w-]{10,}"
    r"|\bnvapi-[\w-]{20,}|\bsk-[\w-]{20,}|\bAIza[\w-]{35}"
    r"|\beyJ[\w-]{10,4096}\.[\w-]{10,8192}\.[\w-]{5,}"  # a JSON web token
)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_URL = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,80}):[^\s@/]{1,200}@", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """A text whose keys, tokens and passwords are replaced by `<removed>`."""
    if len(text) < SHORTEST:
        return text
    return _of_many(text) if len(text) <= _SHORT else _without_secrets(text)


def _without_secrets(text: str) -> str:
    low = text.lower()
    if "-----begin " in low:
        text = _BLOCK.sub(GONE, text)
        low = text.lower()
    if len(low) != len(
        text
    ):  # some letters of other scripts are longer in lower case: places would not agree
        return _cleaned(text)
    pieces, done = [], 0
    for start, end in sorted(_suspect_lines(low)):
        pieces += [text[done:start], _cleaned(text[start:end])]
        done = end
    return "".join([*pieces, text[done:]]) if pieces else text


_of_many = lru_cache(maxsize=4096)(_without_secrets)
"""Most files of a capture have one short line, and thousands of hosts the same."""


def _suspect_lines(low: str) -> set[tuple[int, int]]:
    """Where the lines begin and end that have a hint; nearly all lines of a capture have none."""
    found = set()
    for hint in _HINTS:
        at = low.find(hint)
        while at >= 0:
            end = low.find("\n", at)
            end = len(low) if end < 0 else end
            found.add((low.rfind("\n", 0, at) + 1, end))
            at = low.find(hint, end)
    return found


def _cleaned(line: str) -> str:
    line = _BEARER.sub(rf"\1 {GONE}", _KNOWN.sub(GONE, line))
    line = _URL.sub(rf"\1:{GONE}@", line)
    return _SETTING.sub(_unset, _SSHPASS.sub(rf"\1{GONE}", line))


def _unset(match: re.Match[str]) -> str:
    before = match.string[max(match.start() - _LONGEST_FLAG, 0) : match.start()]
    is_setting = match["set"] is not None or _FLAG.search(before) is not None
    return match["key"] + GONE if is_setting else match[0]


def redacted(capture: HostCapture) -> HostCapture:
    """A capture without secrets; files that are secrets as a whole are kept by name, as DENIED."""
    return replace(capture, files=_table(capture.files), commands=_table(capture.commands))


def _table(table: Mapping[str, Captured]) -> dict[str, Captured]:
    found = {}
    for name, captured in table.items():
        if not name.startswith("/sys/") and _WHOLE_FILES.search(name):
            found[name] = Captured(CaptureState.DENIED, note="left out: it holds secrets")
            continue
        text, note = without_secrets(captured.text), without_secrets(captured.note)
        same = text == captured.text and note == captured.note
        found[name] = captured if same else Captured(captured.state, text, note)
    return found
