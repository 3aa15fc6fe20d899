"""NVLink (27): links of each GPU, the matrix of GPUs, error counters."""

from __future__ import annotations

from collections import Counter, defaultdict

from nettune.elements import ElementId
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers import nvidia
from nettune.qualify.checks.parsers.topo import gpu_links
from nettune.qualify.checks.rules.gpus import has_nvidia

STATUS = "nvidia-smi nvlink -s"
TOPO = "nvidia-smi topo -m"


def _nvlink(fleet: Fleet, say: Verdicts) -> None:
    tables = {view.host: nvidia.nvlinks(view.text(STATUS) or "") for view in fleet.hosts}
    counts: Counter[int] = Counter()
    for table in tables.values():
        counts.update(_active(links) for links in table.values() if links)
    for view in fleet.hosts:
        table = tables[view.host]
        if not any(table.values()):
            expected = counts or any(device.kind == "nvswitch" for device in view.pci.values())
            if expected and has_nvidia(view):
                say.missing(view, STATUS)
            continue
        common, votes = counts.most_common(1)[0]
        for gpu, links in table.items():
            down = sorted(link for link, speed in links.items() if speed is None)
            speeds = Counter(speed for speed in links.values() if speed)
            slow = [link for link, speed in links.items() if speed and speed < max(speeds, default=0)]
            where = ElementId.gpu(view.host, gpu)
            fix = "reset the GPU, restart the fabric manager; if it stays, change the GPU or baseboard"
            if down:
                say.fail(
                    where,
                    f"{len(down)} of {len(links)} NVLinks are inactive: {', '.join(map(str, down[:20]))}",
                    basis="nvidia-smi nvlink -s",
                    fix=fix,
                )
            elif slow:
                say.fail(
                    where, f"NVLinks {slow[:20]} are slower than its others", basis="its other links", fix=fix
                )
            elif votes > counts.total() / 2 and _active(links) < common:
                say.fail(
                    where,
                    f"has {_active(links)} NVLinks where {common} are expected",
                    basis=f"{votes} of {counts.total()} GPUs have {common}",
                    fix=fix,
                )
        if not say.has_spoken(view.host):
            say.ok(view.where, f"all NVLinks of {len(table)} GPUs are active, {common} each")


def _matrix(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        gpus, rows = gpu_links(view.captured(TOPO).text)
        linked = {gpu: sum(kind.startswith("NV") for kind in row.values()) for gpu, row in rows.items()}
        most = max(Counter(linked.values()).most_common(), key=lambda pair: pair[1], default=(0, 0))
        if not most[0]:
            continue  # no NVLink at all: that is how PCIe hosts are
        for gpu, count in linked.items():
            lone = count == 0 or (count < most[0] and 2 * most[1] > len(linked))
            if lone and count <= most[0] - 2:
                say.fail(
                    ElementId.gpu(view.host, gpu),
                    f"has NVLink to {count} other GPUs where {most[0]} are expected",
                    basis=f"{most[1]} of {len(linked)} GPUs of this host have {most[0]}",
                    fix="reset the GPU, restart the fabric manager; if it stays, change the GPU or baseboard",
                )
        if len(rows) < gpus:
            say.unknown(view.where, f"{len(rows)} of {gpus} rows of `{TOPO}` are whole", fix="collect again")
        elif not say.has_spoken(view.host):
            say.ok(view.where, f"{len(linked)} GPUs have NVLink to {most[0]} others each")


def _active(links: dict[int, float | None]) -> int:
    return sum(speed is not None for speed in links.values())


def _nvlink_errors(fleet: Fleet, say: Verdicts) -> None:
    source = "nvidia-smi nvlink -e"
    for view in fleet.hosts:
        now = nvidia.nvlink_errors(view.text(source) or "")
        earlier = fleet.before.get(view.host)
        if not now:
            continue
        if earlier is None:
            say.unknown(
                view.where, "no earlier capture", fix="collect twice, some minutes apart, and give both"
            )
            continue
        past = nvidia.nvlink_errors(earlier.text(source) or "")
        grown: dict[int, list[str]] = defaultdict(list)
        for (gpu, link, name), value in now.items():
            if (gpu, link, name) in past and value > past[gpu, link, name]:
                grown[gpu].append(f"link {link} {name} +{value - past[gpu, link, name]}")
        for gpu, said in grown.items():
            say.fail(
                ElementId.gpu(view.host, max(gpu, 0)),
                f"NVLink errors grew: {', '.join(said[:4])}",
                basis="growth between two captures",
                fix="reset the GPU; if it stays, change the GPU or baseboard",
            )
        if not grown:
            say.ok(view.where, f"no growth in {len(now)} NVLink error counters")


RULES = (
    Rule(
        "nvlink",
        (27,),
        (STATUS,),
        "traffic inside the host goes over PCIe: several times slower",
        _nvlink,
        core=True,
    ),
    Rule(
        "nvlink-matrix",
        (27,),
        (TOPO,),
        "traffic inside the host goes over PCIe: several times slower",
        _matrix,
    ),
    Rule(
        "nvlink-errors",
        (27,),
        ("nvidia-smi nvlink -e",),
        "NVLink sends packets again, then drops",
        _nvlink_errors,
    ),
)
