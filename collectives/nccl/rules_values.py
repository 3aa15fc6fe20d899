"""Rules of values: what NCCL silently makes of them, and what is out of range."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from collectives.nccl.job import Job, shown
from collectives.nccl.parsing import Trap, in_hardware, read_number
from collectives.nccl.settings import Origin, Setting
from collectives.nccl.variables import Kind, Variable, variables
from nettune.checks import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUE = "nccl-env-value"

_HARMLESS = {Trap.NONE, Trap.EMPTY, Trap.REST}
_WHY = {
    Trap.NO_NUMBER: "it does not begin with a number",
    Trap.QUOTES: "the quotes are part of the value, so it does not begin with a number",
    Trap.TRUTH: "words are no numbers, `true` and `yes` too are 0",
    Trap.UNIT: "a unit is ignored",
    Trap.FRACTION: "reading ends at the first character that is no digit",
    Trap.OCTAL: "a leading 0 makes it octal",
    Trap.REST: "what follows the digits is ignored",
}
_BOOLEANS = {"0", "1", "y", "n", "yes", "no", "t", "f", "true", "false"}
_LEGACY_LEVELS = "LOC 0, PIX 1, PXB 2, PHB 3, SYS 4"


def values(job: Job) -> Iterator[Finding]:
    """Each value by the type of its variable."""
    for setting in job.environment.in_force.values():
        variable = variables().get(setting.name)
        if variable is None or setting.expands:
            continue
        if variable.kind is Kind.INTEGER:
            yield from _integer(job, variable, setting)
        else:
            yield from _wrapping(job, variable, setting)
            yield from _word(job, variable, setting)


def _integer(job: Job, variable: Variable, setting: Setting) -> Iterator[Finding]:
    reading = read_number(setting.value)
    default = variable.default_in(job.version)
    named = f"default {default}" if default else "default"
    if reading.trap is Trap.EMPTY:
        what = f"{setting.name} is set to nothing: NCCL takes the {named}"
        yield job.finding(VALUE, Status.WARN, what, "Remove it, or give it a number.", setting)
        return
    if reading.trap is Trap.TOO_LONG or reading.value is None:
        what = f"{shown(setting)} is beyond 64 bits: NCCL takes the {named}"
        yield job.finding(VALUE, Status.FAIL, what, _fix(variable, None), setting)
        return
    value = reading.value
    if reading.trap is not Trap.NONE:
        quoted_in_file = reading.trap is Trap.QUOTES and setting.origin is Origin.LINES
        harmless = reading.trap in _HARMLESS or reading.meant == value or quoted_in_file
        what = f"{shown(setting)} is {value} for NCCL: {_WHY[reading.trap]}; it is not reported"
        if quoted_in_file:
            what = f"{shown(setting)} is {value} for NCCL unless a shell takes off the quotes; env files of containers keep them"
        yield job.finding(
            VALUE,
            Status.WARN if harmless else Status.FAIL,
            what + _consequence(variable, value),
            _fix(variable, reading.meant),
            setting,
            understood=value,
        )
        if not harmless:
            return
    yield from _range(job, variable, setting, value)


def _consequence(variable: Variable, value: int) -> str:
    if variable.name == "NCCL_IB_TIMEOUT" and value == 0:
        return "; 0 is an infinite timeout, a lost packet then hangs the job for ever"
    if variable.unit == "bytes" and 0 < value < 1024:
        return f"; that is {value} bytes"
    return ""


def _fix(variable: Variable, meant: int | None) -> str:
    if meant is not None and _inside(variable, meant):
        return f"Write {variable.name}={meant}."
    bounds = [str(bound) for bound in (variable.low, variable.high) if bound is not None]
    between = f" from {bounds[0]} to {bounds[1]}" if len(bounds) == 2 else ""
    return (
        f"Write {variable.name} as a whole number{between}{f' of {variable.unit}' if variable.unit else ''}."
    )


def _inside(variable: Variable, value: int) -> bool:
    if variable.default and value == read_number(variable.default).value:
        return True
    return (variable.low is None or value >= variable.low) and (
        variable.high is None or value <= variable.high
    )


def _range(job: Job, variable: Variable, setting: Setting, value: int) -> Iterator[Finding]:
    if _inside(variable, value):
        yield from _shape(job, variable, setting, value)
        return
    left = in_hardware(variable, value)
    status = Status.WARN
    if variable.name == "NCCL_IB_TIMEOUT" and value == 0:
        status = Status.FAIL
        what = f"{shown(setting)} is an infinite timeout: a lost packet then hangs the job for ever"
    elif variable.name == "NCCL_IB_TIMEOUT":
        status = Status.FAIL
        what = (
            f"{shown(setting)} is outside 1 to 31 and not checked: the queue pair's field has 5 bits and keeps {left}"
            " (the documentation says infinite; unverified)"
        )
    elif left != value:
        status = Status.FAIL
        what = f"{shown(setting)} is outside {variable.low} to {variable.high} and not checked: the field keeps {left}"
    elif variable.low == 0 and variable.high == 1:
        what = f"{shown(setting)} is neither 0 nor 1"
    else:
        bounds = f"{variable.low if variable.low is not None else 'any'} to {'any' if variable.high is None else variable.high}"
        what = f"{shown(setting)} is outside the accepted {bounds}"
        if variable.name.endswith(("_CTAS", "_NCHANNELS", "_NRINGS")):
            what += ": too low is left out, too high is cut to 64 (32 before 2.25)"
    yield job.finding(VALUE, status, what, _fix(variable, None), setting, understood=value, kept=left)


def _shape(job: Job, variable: Variable, setting: Setting, value: int) -> Iterator[Finding]:
    """Numbers inside their range that are odd all the same."""
    if variable.name in {"NCCL_NTHREADS", "NCCL_LL128_NTHREADS"} and value > 0 and value % 32:
        what = f"{shown(setting)} is no multiple of 32: NCCL takes its own number"
        yield job.finding(VALUE, Status.WARN, what, f"Write {setting.name}={value // 32 * 32}.", setting)
    if variable.name == "NCCL_BUFFSIZE" and 0 < value < 1 << 17:
        what = f"{shown(setting)} is {value} bytes, in steps of {value // 8}: the default is 4194304"
        yield job.finding(
            VALUE, Status.FAIL if value < 4096 else Status.WARN, what, _fix(variable, 4 << 20), setting
        )


def _wrapping(job: Job, variable: Variable, setting: Setting) -> Iterator[Finding]:
    """Quotes, comments and line ends that became part of a text."""
    value = setting.value
    if setting.origin not in {Origin.CONF, Origin.LINES, Origin.PROCESS}:
        return
    sure = Status.WARN if setting.origin is Origin.LINES else Status.FAIL
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        what = f"the quotes in {shown(setting)} are part of the value"
        if setting.origin is Origin.LINES:
            what += " unless a shell reads the file; env files of containers keep them"
        yield job.finding(VALUE, sure, what, f"Write {setting.name}={value[1:-1]}.", setting)
    elif " #" in value and variable.name != "NCCL_DEBUG_TIMESTAMP_FORMAT":
        what = f"the comment in {shown(setting)} is part of the value"
        yield job.finding(VALUE, sure, what, "Put the comment on a line of its own.", setting)
    elif value.endswith("\r"):
        what = f"{setting.name} ends with a carriage return: the file has line ends of Windows"
        yield job.finding(VALUE, Status.FAIL, what, "Convert the file to line ends of Unix.", setting)


def _word(job: Job, variable: Variable, setting: Setting) -> Iterator[Finding]:
    value = setting.value.strip()
    if not value:
        return
    if variable.kind is Kind.WORD and value.upper() not in variable.words:
        what = f"{shown(setting)} is none of {', '.join(variable.words)}"
        if variable.name == "NCCL_DEBUG":
            what += ": NCCL then logs nothing"
        yield job.finding(
            VALUE, Status.WARN, what, f"Write {setting.name}={_nearest_word(value, variable.words)}.", setting
        )
    elif variable.name == "NCCL_DEBUG" and value.upper() == "ATTN" and not job.at_least("2.32"):
        what = "NCCL_DEBUG=ATTN came with NCCL 2.32: older ones then log nothing"
        yield job.finding(VALUE, Status.WARN, what, "Write NCCL_DEBUG=WARN NCCL_DEBUG_LEVELS=ATTN.", setting)
    elif variable.kind is Kind.LEVEL and variable.words:
        if value.isascii() and value.isdecimal():
            what = f"{shown(setting)} is a number of old ({_LEGACY_LEVELS}), whose meaning may change"
            yield job.finding(VALUE, Status.WARN, what, f"Write one of {', '.join(variable.words)}.", setting)
        elif value.upper() not in variable.words:
            what = (
                f"{shown(setting)} is none of {', '.join(variable.words)} (what NCCL then does is unverified)"
            )
            yield job.finding(VALUE, Status.WARN, what, f"Write one of {', '.join(variable.words)}.", setting)
    elif variable.kind is Kind.BOOL and value.lower() not in _BOOLEANS:
        what = f"{shown(setting)} is no 0 or 1: PyTorch refuses it (from memory, unverified)"
        yield job.finding(VALUE, Status.WARN, what, f"Write {setting.name}=1 or 0.", setting)
    elif variable.kind is Kind.FLOAT and not _is_positive(value):
        what = f"{shown(setting)} is no positive number: NCCL takes {variable.default}"
        yield job.finding(VALUE, Status.WARN, what, f"Write {setting.name} as a number above 0.", setting)


def _nearest_word(value: str, words: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(value.upper(), words, n=1)
    return near[0] if near else " or ".join(words[:2])


def _is_positive(text: str) -> bool:
    try:
        return 0.0 < float(text) < float("inf")
    except ValueError:
        return False
