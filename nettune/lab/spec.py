"""What a person asks for: `lab.toml`, checked, with units in its types.

name = "demo"
leaves = 4
spines = 2
hosts_per_leaf = 2
rails = 1                    # NICs of a host: eth0, eth1, ...
rail_wiring = "same-leaf"    # or "per-rail": rail r of pod p goes to leaf p * rails + r
host_rate = "100mbit"
uplink_rate = "100mbit"
parallel_uplinks = 1         # cables between each leaf and each spine
hash_seed = 1
host_names = "h{n0}"         # {n0} counts from 0, {n} from 1; or a list of names
mtu = 1500
congestion_control = "reno"
port_range = "32768-60999"   # source ports of hosts' connections (ip_local_port_range)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from nettune.errors import InputError
from nettune.tables import explain, line_named, line_of, read_toml
from nettune.units import parse_rate

MAX_HOST_LINKS_PER_LEAF = 126
MAX_LEAVES = 250
MAX_SPINES = 64
MAX_HOSTS = 1024
MAX_UPLINKS = 8192
MIN_RATE_GBPS = 0.001
MAX_RATE_GBPS = 100.0
MIN_PORTS = 16
"""gloo's listening and connecting sockets share the range; with 4 ports its ranks do not find any (measured)."""

_LAB_NAME = r"[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?"
_HOST_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38}[A-Za-z0-9])?"
_RESERVED_HOST_NAME = r"(?:leaf|spine)[0-9]+|localhost"
_CONGESTION_CONTROL = r"[a-z0-9_]{1,15}"


_OWN_ERROR = "lab_spec"


def _refuse(what: str) -> PydanticCustomError:
    # Pydantic prints this message as it stands; braces would be taken for its placeholders.
    return PydanticCustomError(_OWN_ERROR, "{what}", {"what": what})


class LabSpec(BaseModel):
    """An emulated two-tier Clos fabric; see the module's example. Immutable.

    Rates are text with a unit (`100mbit`); `host_rate_gbps` and `uplink_rate_gbps` are numbers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = "lab"
    leaves: int = Field(default=4, ge=1, le=MAX_LEAVES)
    spines: int = Field(default=2, ge=0, le=MAX_SPINES)
    hosts_per_leaf: int = Field(default=2, ge=1)
    rails: int = Field(default=1, ge=1, le=8)
    rail_wiring: Literal["same-leaf", "per-rail"] = "same-leaf"
    host_rate: str = "100mbit"
    uplink_rate: str = "100mbit"
    parallel_uplinks: int = Field(default=1, ge=1, le=8)
    hash_seed: int = Field(default=1, ge=1, le=2**32 - 1)
    host_names: str | tuple[str, ...] = "h{n0}"
    mtu: int = Field(default=1500, ge=576, le=9000)
    congestion_control: str = "reno"
    port_range: str = "32768-60999"

    @field_validator("host_names", mode="before")
    @classmethod
    def _list_of_names(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("name")
    @classmethod
    def _short_name(cls, value: str) -> str:
        if not re.fullmatch(_LAB_NAME, value):
            raise _refuse(f"{value!r} is no lab name; use at most 24 of a-z, 0-9 and inner '-'")
        return value

    @field_validator("congestion_control")
    @classmethod
    def _word(cls, value: str) -> str:
        if not re.fullmatch(_CONGESTION_CONTROL, value):
            raise _refuse(f"{value!r} is no congestion control; write reno or cubic")
        return value

    @field_validator("port_range")
    @classmethod
    def _range(cls, value: str) -> str:
        match = re.fullmatch(r"([0-9]{4,5})-([0-9]{4,5})", value, re.ASCII)
        if not match or not 1024 <= int(match[1]) <= int(match[2]) - MIN_PORTS + 1 <= 65536 - MIN_PORTS:
            raise _refuse(
                f"{value!r} is no range of {MIN_PORTS} or more ports from 1024 to 65535; write 40000-40255"
            )
        return value

    @field_validator("host_rate", "uplink_rate")
    @classmethod
    def _rate(cls, value: str) -> str:
        try:
            rate_gbps = parse_rate(value)
        except InputError as error:
            raise _refuse(str(error)) from None
        if not MIN_RATE_GBPS <= rate_gbps <= MAX_RATE_GBPS:
            raise _refuse(f"{value!r} is outside 1mbit to 100gbit; one machine emulates about 100mbit a link")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> LabSpec:
        if self.leaves > 1 and self.spines == 0:
            raise _refuse("spines = 0 leaves the leaves apart; use at least 1 spine or 1 leaf")
        if self.rail_wiring == "per-rail" and self.leaves % self.rails:
            raise _refuse(f"leaves = {self.leaves} is no multiple of rails = {self.rails}, as per-rail needs")
        nics = self.hosts_per_leaf * (self.rails if self.rail_wiring == "same-leaf" else 1)
        if nics > MAX_HOST_LINKS_PER_LEAF:
            raise _refuse(
                f"hosts_per_leaf = {self.hosts_per_leaf} gives a leaf {nics} host links; its address prefix "
                f"holds {MAX_HOST_LINKS_PER_LEAF}, so use fewer hosts or rails per leaf"
            )
        if self.host_count > MAX_HOSTS:
            raise _refuse(f"{self.host_count} hosts are more than one machine holds; use at most {MAX_HOSTS}")
        if self.leaves * self.spines * self.parallel_uplinks > MAX_UPLINKS:
            raise _refuse(f"more than {MAX_UPLINKS} uplinks; use fewer leaves, spines or parallel uplinks")
        self._check_host_names()
        return self

    def _check_host_names(self) -> None:
        if isinstance(self.host_names, str):
            fields = re.findall(r"\{[^}]*\}", self.host_names)
            if fields not in (["{n}"], ["{n0}"]):
                raise _refuse(f"host_names = {self.host_names!r} needs one {{n}} (from 1) or {{n0}} (from 0)")
        elif len(self.host_names) != self.host_count:
            raise _refuse(f"host_names lists {len(self.host_names)} names for {self.host_count} hosts")
        hosts = self.hosts
        for host in hosts:
            if not re.fullmatch(_HOST_NAME, host) or re.fullmatch(_RESERVED_HOST_NAME, host):
                raise _refuse(
                    f"host_names: {host!r} is no host name; use letters, digits and inner '-', not leafN"
                )
        if len(set(hosts)) != len(hosts):
            raise _refuse("host_names repeats a name; every host needs its own")

    @property
    def host_count(self) -> int:
        """Number of hosts of the whole fabric."""
        pods = self.leaves // self.rails if self.rail_wiring == "per-rail" else self.leaves
        return pods * self.hosts_per_leaf

    @property
    def hosts(self) -> list[str]:
        """Host names in fabric (depth-first) order: leaf by leaf, or pod by pod."""
        if isinstance(self.host_names, str):
            pattern = self.host_names
            return [
                pattern.replace("{n}", str(i + 1)).replace("{n0}", str(i)) for i in range(self.host_count)
            ]
        return list(self.host_names)

    @property
    def host_rate_gbps(self) -> float:
        """Nominal rate of a host link."""
        return parse_rate(self.host_rate)

    @property
    def uplink_rate_gbps(self) -> float:
        """Nominal rate of one link between a leaf and a spine."""
        return parse_rate(self.uplink_rate)


def make_spec(values: dict[str, Any], file: Path | str | None = None, text: str = "") -> LabSpec:
    """LabSpec of plain values; `file` and `text` say where they came from.

    Raises:
        InputError: the first thing wrong, with file and line where they are known.
    """
    try:
        return LabSpec.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["loc"]:
            line = line_of(str(first["loc"][0]), text)
        else:  # a rule over several keys
            line = line_named(first["msg"], LabSpec.model_fields, text)
        raise InputError(_say(first), file, line) from None


def load_spec(path: Path | str) -> LabSpec:
    """Read `lab.toml`.

    Raises:
        InputError: `FILE:LINE: what is wrong` (the line where it can be found).
    """
    values, text = read_toml(path)
    return make_spec(values, path, text)


def _say(error: ErrorDetails) -> str:
    if error["type"] != _OWN_ERROR:
        return explain(error, LabSpec.model_fields)
    return ": ".join([*map(str, error["loc"][:1]), error["msg"]])
