"""`Job`: what the rules of `lint env` look at, and how they say what they found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collectives.nccl.parsing import used_value
from collectives.nccl.settings import Origin
from collectives.nccl.variables import NEWEST, Kind, Version, parse_version, variables
from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from topology.naming import element_name

if TYPE_CHECKING:
    from collectives.nccl.environment import Environment
    from collectives.nccl.settings import Setting
    from topology.fabric import Fabric

_SHOWN = 80
"""Characters of a value that a sentence shows."""


@dataclass(frozen=True)
class Job:
    """The settings of one job or process and what is known of where it runs.

    Attributes:
        version: of NCCL.
        fabric: the discovered fabric; None where none was given.
        dscp: DSCP of the fabric's lossless class; None where it was not told.
    """

    environment: Environment
    version: Version = NEWEST
    fabric: Fabric | None = None
    dscp: int | None = None

    @property
    def where(self) -> ElementId:
        """The host of a live process; else the fabric: settings hold for the whole job."""
        try:
            return ElementId.host(element_name(self.environment.host))
        except InputError:
            return ElementId.fabric()

    def at_least(self, version: str) -> bool:
        """Whether the job's NCCL is of that version or newer."""
        return self.version >= parse_version(version)

    def get(self, name: str) -> Setting | None:
        """The setting in force; None where it is not set, or set to something that only a shell can tell."""
        setting = self.environment.get(name)
        return None if setting is None or setting.expands else setting

    def number(self, name: str) -> int | None:
        """The number that NCCL goes by, set or default; None where NCCL chooses, or only a shell can tell."""
        setting = self.environment.get(name)
        variable = variables()[name]
        if setting is not None and setting.expands:
            return None
        text = "" if setting is None else setting.value
        if variable.kind is Kind.BOOL and text.strip().lower() in {"y", "yes", "t", "true"}:
            return 1
        return used_value(variable, text, self.version)

    def text(self, name: str) -> str:
        """The text that is in force; empty where nothing is."""
        setting = self.get(name)
        return "" if setting is None else setting.value

    def finding(
        self,
        check: str,
        status: Status,
        what: str,
        fix: str,
        *settings: Setting | None,
        where: ElementId | None = None,
        **figures: Any,
    ) -> Finding:
        """A finding about settings: the first is the one to change."""
        places = [place(one) for one in settings if one is not None]
        evidence: dict[str, Any] = dict(places[0]) if places else {}
        if len(places) > 1:
            evidence["together_with"] = places[1:]
        return Finding(
            check=check,
            status=status,
            where=where or self.where,
            what=f"{located(settings[0])}{what}" if settings and settings[0] else what,
            fix=fix,
            evidence=evidence | figures,
        )


def located(setting: Setting) -> str:
    """`job.sh:5: ` before a sentence; empty for a process, whose variables have no lines."""
    return "" if setting.origin is Origin.PROCESS else f"{setting.file}:{setting.line}: "


def place(setting: Setting) -> dict[str, Any]:
    """File, line, name and value of a setting, for evidence."""
    return {
        "file": setting.file,
        "line": setting.line,
        "variable": setting.name,
        "value": setting.value[:1024],
    }


def shown(setting: Setting) -> str:
    """`NCCL_IB_TIMEOUT=abc`; long values cut, control characters escaped."""
    value = setting.value if setting.value.isprintable() else repr(setting.value)[1:-1]
    return f"{setting.name.strip()}={value[:_SHOWN]}{'...' if len(value) > _SHOWN else ''}"
