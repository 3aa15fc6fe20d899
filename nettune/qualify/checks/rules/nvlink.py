"""NVLink (27): links of each GPU, the matrix of GPUs, error counters."""

from __future__ import annotations

from collections import Counter, defaultdict

from nettune.elements import ElementId
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers import nvidia
from nettune.qualify.checks.parsers.topo import gpu_links
from nettune.qualify.checks.rules.gpus import has_nvidia, product

STATUS = "nvidia-smi nvlink -s"
TOPO = "nvidia-smi topo -m"


def _nvlink(fleet: Fleet, say: Verdicts) -> None:
    tables = {view.host: nvidia.nvlinks(view.text(STATUS) or "") for view in fleet.hosts}
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for view in fleet.hosts:
        counts[product(view)].update(_active(links) for links in tables[view.host].values() if links)
    for view in fleet.hosts:
        table, of_product = tables[view.host], counts[product(view)]
        if not any(table.values()):
            expected = of_product or any(device.kind == "nvswitch" for device in view.pci.values())
            if expected and has_nvidia(view):
                say.missing(view, STATUS)
            continue
        common, votes = of_product.most_common(1)[0]
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
            elif votes > of_product.total() / 2 and _active(links) < common:
                say.fail(
                    where,
                    f"has {_active(links)} NVLinks where {common} are expected",
                    basis=f"{votes} of {of_product.total()} GPUs have {common}",
                    fix=fix,
                )
        if not say.has_spoken(view.host):
            say.ok(view.where, f"all NVLinks of {len(table)} GPUs are active, {common} each")


def _matrix(fleet: Fleet, say: Verdicts) -> None:
    matrices = {view.host: gpu_links(view.captured(TOPO).text) for view in fleet.hosts}
    counts = {host: Counter(_linked(rows).values()) for host, (_, rows) in matrices.items()}
    products = {view.host: view.smi[1][0].value("Product Name") for view in fleet.hosts if view.smi[1]}
    for view in fleet.hosts:
        product = products.get(view.host, "")
        peers = {
            host: max(table) for host, table in counts.items() if table and products.get(host) == product
        }
        usual = fleet.majority(peers) if product else None
        gpus, rows = matrices[view.host]
        linked, count_of = _linked(rows), counts[view.host]
        most, having = max(count_of.items(), key=lambda pair: pair[1], default=(0, 0))
        if usual is not None and rows and max(count_of) < usual[0]:
            say.fail(
                view.where,
                f"its GPUs have NVLink to {max(count_of)} others at most where {usual[0]} are expected",
                basis=f"{usual[1]} hosts have GPUs with NVLink to {usual[0]} others",
                fix="start nvidia-fabricmanager; reset the GPUs; if it stays, change the baseboard",
            )
            continue
        if not most:
            continue  # no NVLink at all: that is how PCIe hosts are
        for gpu, count in linked.items():
            lone = count == 0 or (count < most and 2 * having > len(linked))
            if lone and count <= most - 2:
                say.fail(
                    ElementId.gpu(view.host, gpu),
                    f"has NVLink to {count} other GPUs where {most} are expected",
                    basis=f"{having} of {len(linked)} GPUs of this host have {most}",
                    fix="reset the GPU, restart the fabric manager; if it stays, change the GPU or baseboard",
                )
        if len(rows) < gpus:
            say.unknown(view.where, f"{len(rows)} of {gpus} rows of `{TOPO}` are whole", fix="collect again")
        elif not say.has_spoken(view.host):
            say.ok(view.where, f"{len(linked)} GPUs have NVLink to {most} others each")


def _linked(rows: dict[int, dict[int, str]]) -> dict[int, int]:
    """GPU -> how many others it has NVLink to."""
    return {gpu: sum(kind.startswith("NV") for kind in row.values()) for gpu, row in rows.items()}


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
            say.no_earlier(view)
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
