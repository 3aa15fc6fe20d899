"""Bit errors (18) and optics (33) as mlxlink and ethtool tell them, and flaps in the kernel log (17)."""

from __future__ import annotations

from collections.abc import Iterable

from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers.ethernet import Reading, module_readings
from nettune.qualify.checks.parsers.kernel import link_downs
from nettune.qualify.checks.parsers.mlxlink import LinkReport, mlxlink
from nettune.qualify.checks.rules.pcie import DMESG
from nettune.qualify.checks.view import HostView
from topology.capture import CaptureState

DAY_S = 86_400.0


def reports(fleet: Fleet, view: HostView) -> dict[str, LinkReport]:
    """Port -> its mlxlink report, for data ports whose tool ran; the text may be partial when it failed."""

    def made() -> dict[str, LinkReport]:
        found = {}
        for one in fleet.data_ports[view.host]:
            captured = view.captured(f"mlxlink -d {one.device.name} -m -c")
            if captured.state is not CaptureState.ABSENT:
                found[one.name] = mlxlink(captured.text or captured.note)
        return found

    return fleet.once(("mlxlink", view.host), made)


def _ber(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        ports = fleet.data_ports[view.host]
        found = reports(fleet, view)
        told = 0
        for one in ports:
            if one.name not in found:
                captured = view.captured(f"mlxlink -d {one.device.name} -m -c")
                say.unknown(
                    view.nic(one.name),
                    f"mlxlink: {captured.state} ({captured.note[:80]})",
                    fix="install NVIDIA MFT",
                )
        for name, report in found.items():
            effective, raw = report.ber("effective physical ber"), report.ber("raw physical ber")
            if effective is None and raw is None:
                say.unknown(
                    view.nic(name),
                    f"no bit error rate: {report.error or 'mlxlink does not tell it'}",
                    fix="run mlxlink as root",
                )
                continue
            told += 1
            clear = report.values.get("time since last clear [min]", "")
            since = f" over {clear} min" if clear else ""
            if effective is not None and effective > fleet.limit("effective-ber"):
                say.fail(
                    view.nic(name),
                    f"effective bit error rate {effective:.1e}{since}",
                    basis="errors that are left after correction",
                    fix="clean and reseat the module and the fibre at both ends; change the cable",
                    limits=["effective-ber"],
                )
            elif raw is not None and raw > fleet.limit("raw-ber"):
                say.warn(
                    view.nic(name),
                    f"raw bit error rate {raw:.1e}{since}",
                    basis="errors before correction",
                    fix="clean and reseat the module and the fibre at both ends",
                    limits=["raw-ber"],
                )
            elif raw is not None and raw >= fleet.limit("raw-ber-harmless") and report.complains_of_signal:
                say.warn(
                    view.nic(name),
                    f"mlxlink complains of the signal, at a raw bit error rate of {raw:.1e}{since}",
                    basis="its recommendation, which does not count below the limit",
                    fix="clean and reseat the module and the fibre at both ends",
                    limits=["raw-ber-harmless"],
                )
        if told and not say.has_spoken(view.host):
            say.ok(
                view.where,
                f"bit error rates of {told} ports are within the limits",
                limits=["effective-ber", "raw-ber"],
            )


def _optics(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        told = 0
        for name, report in reports(fleet, view).items():
            told += _readings(fleet, say, view, name, report.readings())
        if not told:
            for one in fleet.data_ports[view.host]:
                text = view.text(f"ethtool -m {one.port.netdev}") if one.port.netdev else None
                told += _readings(fleet, say, view, one.name, module_readings(text or ""))
        if told and not say.has_spoken(view.host):
            say.ok(view.where, f"{told} readings of modules are within the modules' own ranges")


def _readings(fleet: Fleet, say: Verdicts, view: HostView, port: str, readings: Iterable[Reading]) -> int:
    told = 0
    for reading in readings:
        if reading.low is None or reading.high is None or reading.low >= reading.high:
            continue
        told += 1
        name = f"{reading.name} {reading.value:g}, the module's range is {reading.low:g} to {reading.high:g}"
        margin = fleet.limit("optics-margin") if "power" in reading.name.lower() else 0.0
        fix = "clean the connectors; change the module if it stays"
        if "temp" in reading.name.lower():
            fix = "see to the airflow; change the module if it stays"
        if not reading.low <= reading.value <= reading.high:
            say.fail(view.nic(port), f"{name}: outside", basis="the range that the module states", fix=fix)
        elif margin and reading.value < reading.low + margin:
            say.warn(
                view.nic(port),
                f"{name}: within {margin:g} dB of its end",
                basis="the range that the module states",
                fix=fix,
                limits=["optics-margin"],
            )
    return told


def _log(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        text = view.text(DMESG)
        if text is None:
            continue
        interfaces = {one.port.netdev: one.name for one in fleet.data_ports[view.host] if one.port.netdev}
        limit = fleet.limit("flaps-per-day")
        for name, times in link_downs(text).items():
            if interfaces and name not in interfaces:
                continue
            # A log without its time of capture ends with its last message: what is a day older is history.
            end = view.seconds if view.seconds is not None else max(times, default=0.0)
            recent = [at for at in times if end - DAY_S < at]
            if len(recent) >= limit:
                say.fail(
                    view.nic(interfaces.get(name, name)),
                    f"lost its link {len(recent)} times in 24 h",
                    basis="messages `Link down` in the kernel log",
                    fix="clean and reseat the cable at both ends; change the cable",
                    limits=["flaps-per-day"],
                    times=len(recent),
                )
        if interfaces and not say.has_spoken(view.host):
            say.ok(view.where, "the kernel log has no flapping data port", limits=["flaps-per-day"])


RULES = (
    Rule(
        "bit-errors", (18,), ("mlxlink -d DEV -m -c",), "packets are lost, or the link is about to fail", _ber
    ),
    Rule("optics", (33,), ("mlxlink -d DEV -m -c", "ethtool -m IF"), "the link is about to fail", _optics),
    Rule("link-flaps", (17,), (DMESG,), "each loss of the link stops the job or costs it seconds", _log),
)
