"""The job's NCCL variables against what the host has (38)."""

from __future__ import annotations

from collectives.nccl.devices import device_filter
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.variables import CONF, number, of_job
from nettune.qualify.checks.view import HostView
from nettune.wording import some


def _env(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        env = of_job(fleet, view)
        if not env or not view.rdma:
            continue
        hcas = env.get("NCCL_IB_HCA", "")
        if hcas:
            _devices(fleet, say, view, hcas)
        interfaces = env.get("NCCL_SOCKET_IFNAME", "")
        wanted = device_filter(interfaces, with_ports=False)
        if interfaces and view.net_files and not any(map(wanted.takes, view.net_files)):
            say.fail(
                view.where,
                f"NCCL_SOCKET_IFNAME={interfaces[:80]} takes no interface of this host",
                basis=f"it has {some(sorted(view.net_files), 8)}",
                fix="name an interface that all hosts have, or leave it unset",
            )
        if number(fleet, view, "NCCL_IB_DISABLE")[0]:
            say.fail(
                view.where,
                f"NCCL_IB_DISABLE={env['NCCL_IB_DISABLE'][:20]} with RDMA devices: NCCL uses sockets",
                basis=f"it has {len(view.rdma)} RDMA devices",
                fix="leave it unset",
            )
        if not say.has_spoken(view.host):
            say.ok(view.where, "the job's NCCL variables name what this host has")


def _devices(fleet: Fleet, say: Verdicts, view: HostView, hcas: str) -> None:
    wanted = device_filter(hcas, with_ports=True)
    names = sorted(view.rdma)
    used = [name for name in names if wanted.takes(name)]
    unfit = [word for word in wanted.names if not any(word in wanted.matching(name) for name in names)]
    data = {one.device.name for one in fleet.data_ports[view.host]}
    if unfit and not wanted.excluded:
        say.fail(
            view.where,
            f"NCCL_IB_HCA names {some(unfit)[:80]}, which this host does not have",
            basis=f"it has {some(names, 8)}",
            fix="correct the list; a device that is listed and absent is silently left out",
        )
    elif not used:
        say.fail(
            view.where,
            f"NCCL_IB_HCA={hcas[:60]} takes no device of this host: NCCL uses sockets",
            basis=f"it has {some(names, 8)}",
            fix="leave it unset",
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
