"""Secrets are taken out of captures before they are written into a bundle that may leave the site."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from topology.capture import Captured, CaptureState, HostCapture

GONE = "<removed>"
_WHOLE_FILES = re.compile(
    r"(?:/environ$|/etc/shadow|/etc/gshadow|/\.ssh/|id_(?:rsa|dsa|ecdsa|ed25519)$|\.(?:pem|key|p12|pfx|kdbx)$"
    r"|/\.netrc$|/\.aws/|/\.kube/config$|/\.docker/config\.json$|credentials?$|/munge\.key$)"
)
_WORDS = r"(?:token|secret|passw(?:or)?d|passphrase|api_?key|access_?key|auth_?key|credentials?|private_?key|m_?key|sm_?key)"
_SETTING = re.compile(
    rf"(?P<key>[\w.-]{{0,60}}{_WORDS}[\w.-]{{0,40}}[\"']?\s{{0,4}}[=:]\s{{0,4}})(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s,;\"']+)",
    re.IGNORECASE,
)
SHORTEST = 8
_HINTS = (
    *(
        "-----begin",
        "akia",
        "asia",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "glpat-",
        "hf_",
        "xox",
        "eyj",
        "://",
    ),
    *("bearer", "basic", "token", "secret", "passw", "passphrase", "key", "credential"),
)
"""Lower-case pieces of which every text with a secret that is recognised has one."""
_ANY = re.compile(_WORDS, re.IGNORECASE)
_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]{0,40}(?:PRIVATE KEY|CERTIFICATE)-----.*?(?:-----END [A-Z ]{0,60}-----|\Z)", re.DOTALL
)
_KNOWN = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # AWS
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}\b|\bglpat-[\w-]{20,}\b|\bhf_[A-Za-z0-9]{30,}\b|\bxox[abprs]-[\w-]{10,}"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}"  # a JSON web token
)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_URL = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,80}):[^\s@/]{1,200}@", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """A text whose keys, tokens and passwords are replaced by `<removed>`."""
    # Nearly all of the thousands of texts of a host are short numbers: one search decides.
    if len(text) < SHORTEST:
        return text
    low = text.lower()
    if not any(hint in low for hint in _HINTS):
        return text
    text = _BLOCK.sub(GONE, text)
    text = _KNOWN.sub(GONE, text)
    text = _BEARER.sub(rf"\1 {GONE}", text)
    text = _URL.sub(rf"\1:{GONE}@", text)
    if _ANY.search(text) is None:
        return text
    return "".join(
        _SETTING.sub(lambda match: match["key"] + GONE, line) if _ANY.search(line) else line
        for line in text.splitlines(keepends=True)
    )


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
