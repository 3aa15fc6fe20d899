"""The RoCE audit along SONiC switches: what a config_db does with the DSCP that the hosts use (3, 4, 5, 1)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.roce import roce_ports, traffic_class

CONFIG = "/etc/sonic/config_db.json"
CNP_DSCP = 48
"""NVIDIA's default for congestion notifications; AMD's AINIC uses 46."""


def configs(fleet: Fleet) -> dict[str, Mapping[str, Any]]:
    """Switch -> config_db: given beside the captures, or captured."""
    found = dict(fleet.context.switches)
    for view in fleet.hosts:
        text = view.text(CONFIG)
        if text is not None:
            try:
                data = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(data, dict):
                found.setdefault(view.host, data)
    return found


def _switches(fleet: Fleet, say: Verdicts) -> None:
    tables = configs(fleet)
    if not tables:
        return
    used = Counter(port.tclass[0] >> 2 for port in roce_ports(fleet) if port.tclass is not None)
    asked = traffic_class(fleet.context.job_env)
    if not used and asked is not None:
        used[asked[0] >> 2] += 1
    for name, config in tables.items():
        try:
            where = ElementId.switch(name)
        except InputError:
            continue
        if not used:
            say.unknown(
                where,
                "the DSCP of the job's packets is not known",
                fix="give the job's environment (NCCL_IB_TC)",
            )
            continue
        dscp = used.most_common(1)[0][0]
        judged = 0
        for port, row in _rows(config, "PORT_QOS_MAP"):
            if port != "global":
                judged += _port(say, name, config, port, row, dscp)
        if not judged:
            say.fail(
                where,
                "no port has a PORT_QOS_MAP: all traffic is in one class that may be dropped",
                basis="its config_db",
                fix="apply a RoCE configuration: DSCP map, PFC and WRED with ECN on one queue",
            )
        elif not say.has_spoken(name):
            say.ok(where, f"DSCP {dscp} has PFC and ECN on its queue on {judged} ports")


def _port(
    say: Verdicts, switch: str, config: Mapping[str, Any], port: str, row: Mapping[str, Any], dscp: int
) -> bool:
    where = _element(switch, port)
    if where is None:
        return False
    everywhere = dict(_rows(config, "PORT_QOS_MAP")).get("global", {})
    dscp_map = _named(config, "DSCP_TO_TC_MAP", row.get("dscp_to_tc_map") or everywhere.get("dscp_to_tc_map"))
    if not dscp_map:
        say.fail(
            where,
            "has no DSCP map: it does not trust the DSCP of the packets",
            basis="PORT_QOS_MAP without dscp_to_tc_map",
            fix="give it the same dscp_to_tc_map as the other ports",
        )
        return True
    tc = str(dscp_map.get(str(dscp), "0"))
    queues = _named(config, "TC_TO_QUEUE_MAP", row.get("tc_to_queue_map"))
    queue = str(queues.get(tc, tc))
    lossless = {word.strip() for word in str(row.get("pfc_enable") or "").split(",") if word.strip()}
    evidence: dict[str, Any] = {"dscp": dscp, "tc": tc, "queue": queue, "pfc_enable": sorted(lossless)}
    if tc not in lossless:
        say.fail(
            where,
            f"DSCP {dscp} is traffic class {tc}, PFC is on {', '.join(sorted(lossless)) or 'none'}",
            basis="dscp_to_tc_map and pfc_enable of its config_db, the DSCP of the hosts",
            fix=f"map DSCP {dscp} to a class with PFC; SONiC's own AZURE map sends 26 to class 1",
            **evidence,
        )
    profile = _wred(config, port, queue)
    ecn = str(profile.get("ecn", "ecn_none")) if profile else ""
    if not profile or ecn == "ecn_none":
        say.fail(
            where,
            f"queue {queue} of DSCP {dscp} marks nothing: "
            + ("ECN is off in its profile" if profile else "no WRED profile"),
            basis="QUEUE and WRED_PROFILE of its config_db",
            fix="bind a WRED profile with ecn_all and thresholds below PFC's to this queue",
            **evidence,
        )
    cnp = str(dscp_map.get(str(CNP_DSCP), "0"))
    if cnp in lossless:
        say.warn(
            where,
            f"congestion notifications (DSCP {CNP_DSCP}) share the lossless class {cnp}",
            basis="NVIDIA's convention: CNPs in a strict queue without PFC",
            fix=f"map DSCP {CNP_DSCP} to a class of its own",
        )
    return True


def _wred(config: Mapping[str, Any], port: str, queue: str) -> Mapping[str, Any]:
    for key, row in _rows(config, "QUEUE"):
        ports, _, numbers = key.rpartition("|")
        if port in ports.split(",") and _covers(numbers, queue) and row.get("wred_profile"):
            return _named(config, "WRED_PROFILE", row.get("wred_profile"))
    return {}


def _covers(numbers: str, queue: str) -> bool:
    first, dash, last = numbers.partition("-")
    if not dash:
        return numbers == queue
    return all(word.isdecimal() for word in (first, last, queue)) and int(first[:4]) <= int(queue[:4]) <= int(
        last[:4]
    )


def _rows(config: Mapping[str, Any], table: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    rows = config.get(table)
    for key, row in rows.items() if isinstance(rows, dict) else ():
        if isinstance(row, dict):
            yield from ((key, row),) if table != "PORT_QOS_MAP" else ((port, row) for port in key.split(","))


def _named(config: Mapping[str, Any], table: str, name: object) -> Mapping[str, Any]:
    """A row by its name; the old way to write a reference is `[TABLE|NAME]`."""
    match = re.fullmatch(r"\[\w+\|(.+)\]", str(name))
    rows = config.get(table)
    row = rows.get(match[1] if match else str(name)) if isinstance(rows, dict) else None
    return row if isinstance(row, dict) else {}


def _element(switch: str, port: str) -> ElementId | None:
    try:
        return ElementId.port(switch, port)
    except InputError:
        return None


RULES = (
    Rule("roce-switch", (3, 4, 5), (CONFIG,), "the switch drops what the hosts take for lossless", _switches),
)
