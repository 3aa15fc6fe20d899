"""The job's NCCL variables against what the host has (38)."""

from __future__ import annotations

import fnmatch
import re

from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.view import HostView

CONF = "/etc/nccl.conf"


def _env(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        env = settings_of(view) | dict(fleet.context.job_env or {})
        if not env or not view.rdma:
            continue
        hcas = env.get("NCCL_IB_HCA", "")
        if hcas:
            _devices(fleet, say, view, hcas)
        interfaces = env.get("NCCL_SOCKET_IFNAME", "")
        if interfaces and view.net_files and not interfaces.startswith("^"):
            exact = interfaces.startswith("=")
            words = [word for word in interfaces.lstrip("=").split(",") if word]
            if not any(
                fnmatch.fnmatchcase(name, word if exact else f"{word}*")
                for name in view.net_files
                for word in words
            ):
                say.fail(
                    view.where,
                    f"NCCL_SOCKET_IFNAME={interfaces[:80]} names no interface of this host",
                    basis=f"it has {', '.join(sorted(view.net_files))[:120]}",
                    fix="name an interface that all hosts have, or leave it unset",
                )
        if env.get("NCCL_IB_DISABLE") == "1":
            say.fail(
                view.where,
                "NCCL_IB_DISABLE=1 with RDMA devices: NCCL uses sockets",
                basis=f"it has {len(view.rdma)} RDMA devices",
                fix="leave it unset",
            )
        if not say.has_spoken(view.host):
            say.ok(view.where, "the job's NCCL variables name what this host has")


def settings_of(view: HostView) -> dict[str, str]:
    """Variables of /etc/nccl.conf."""
    pairs = re.findall(r"^\s*(NCCL_\w{1,60})\s*=\s*(.*?)\s*$", view.text(CONF) or "", re.MULTILINE)
    return dict(pairs)


def chosen(hcas: str, names: list[str]) -> tuple[list[str], list[str]]:
    """(devices that NCCL_IB_HCA chooses, words of it that fit none).

    The rule of NCCL: words are beginnings of names unless the list starts with `=`; `^` excludes; `:N` is a port.
    """
    exclude = hcas.startswith("^")
    rest = hcas.removeprefix("^")
    exact, rest = rest.startswith("="), rest.removeprefix("=")
    words = [word.partition(":")[0] for word in rest.split(",") if word.strip()]

    def fits(name: str, word: str) -> bool:
        return name == word if exact else name.startswith(word)

    hit = [name for name in names if any(fits(name, word) for word in words)]
    unfit = [word for word in words if not any(fits(name, word) for name in names)]
    return [name for name in names if (name in hit) != exclude], unfit


def _devices(fleet: Fleet, say: Verdicts, view: HostView, hcas: str) -> None:
    used, unfit = chosen(hcas, sorted(view.rdma))
    data = {one.device.name for one in fleet.data_ports[view.host]}
    if unfit and not hcas.startswith("^"):
        say.fail(
            view.where,
            f"NCCL_IB_HCA names {', '.join(unfit)[:80]}, which this host does not have",
            basis=f"it has {', '.join(sorted(view.rdma))[:120]}",
            fix="correct the list; a device that is listed and absent is silently left out",
        )
    wrong, unused = sorted(set(used) - data), sorted(data - set(used))
    if wrong:
        say.warn(
            view.where,
            f"NCCL_IB_HCA={hcas[:60]} also chooses {', '.join(wrong)[:80]}, no data NIC",
            basis="data NICs are the model with most bandwidth; without `=` words are beginnings of names",
            fix=f"NCCL_IB_HCA=={','.join(sorted(data))}",
        )
    if unused and used:
        say.warn(
            view.where,
            f"NCCL_IB_HCA={hcas[:60]} leaves out the data NICs {', '.join(unused)[:80]}",
            basis="data NICs are the model with most bandwidth",
            fix=f"NCCL_IB_HCA=={','.join(sorted(data))}",
        )


RULES = (Rule("job-env", (38,), (CONF,), "NCCL uses other NICs than meant, or sockets", _env),)
