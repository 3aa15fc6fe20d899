"""The fabric as a drawing: tiers as rows, rails by colour, parallel cables by width, what is down dashed in red.

Self-contained SVG without scripts: text stays text, each box tells all its names when pointed at. Readable from 8 hosts
to thousands: nodes are drawn together where one by one they would not be (`boxes.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from nettune.units import format_rate
from topology.columns import NodeKind
from topology.exports.boxes import choose_boxes
from topology.exports.capacity import oversubscription, ratio_text
from topology.exports.names import counts, folded, shown
from topology.exports.palette import DOWN, GRID, HOST_FILL, INK, MUTED, SWITCH_FILL, rail_colour
from topology.exports.svg_layout import CHARACTER, LINE, SIDE, Place, lay_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from topology.exports.boxes import Box, Boxes
    from topology.exports.capacity import Bundle
    from topology.fabric import Fabric

_TOP = 58.0  # title
_LABELLED = 40  # lines between two tiers that get their own numbers
_SINGLE_RATIOS = 24  # leaves that get their own ratio even when all have the same
_SHARES = (0.38, 0.62, 0.5, 0.26, 0.74)  # places of a number along its line, the first that is free
_EDGE = 0.86  # of a box's edge that lines use
_LONGEST = 26  # characters of a text in a box
_TIERS = {0: "hosts", 1: "leaves", 2: "spines", 3: "cores"}
_FONT = "system-ui,'Segoe UI',Roboto,'DejaVu Sans',Arial,sans-serif"


def export(fabric: Fabric) -> dict[str, str]:
    """`fabric.svg`."""
    chosen = choose_boxes(fabric)
    ratios = oversubscription(fabric)
    told = Counter(ratio_text(ratios, [row]) for row in ratios)
    usual = told.most_common(1)[0][0] if told else ""
    names = [folded(fabric.nodes.name[row] for row in box.nodes) for box in chosen.boxes]
    texts = [
        _texts(fabric, box, all_names, ratios, chosen, usual)
        for box, all_names in zip(chosen.boxes, names, strict=True)
    ]
    places, width, bottom = lay_out(chosen, texts, _TOP) if chosen.boxes else ([], 600.0, _TOP)
    body = [
        *_tier_names(chosen, places, ratios, width),
        *_lines(chosen, places, names),
        *_boxes(chosen, places, texts, names),
        *_domains(fabric, chosen, places),
    ]
    legend, height = _legend(fabric, chosen, bottom + 44, width)
    body += legend
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="{_FONT}" font-size="12" fill="{INK}" role="img">'
    )
    title = f"Fabric: {counts(fabric)}"
    return {
        "fabric.svg": "\n".join(
            [
                head,
                f"<title>{title}</title>",
                f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
                f'<text x="14" y="26" font-size="16" font-weight="600">{title}</text>',
                *body,
                "</svg>",
            ]
        )
        + "\n"
    }


def _texts(
    fabric: Fabric, box: Box, all_names: str, ratios: dict[int, float], chosen: Boxes, usual: str
) -> list[str]:
    """Lines in a box: a name, or how many and which; for leaves hosts' capacity over uplinks.

    Where there are many leaves only a ratio that is not the usual one is told.
    """
    names = [fabric.nodes.name[row] for row in box.nodes]
    lines = [shown(names[0])] if len(names) == 1 else [f"{len(names):,} {_word(box.tier)}", all_names]
    lines = [_shortened(line) for line in lines]
    ratio = ratio_text(ratios, box.nodes) if box.tier == 1 else ""
    if ratio and sum(other.tier == 1 for other in chosen.boxes) <= _SINGLE_RATIOS:
        lines.append(ratio)
    elif ratio and ratio != usual:
        lines[-1] += f"  {ratio}"
    return lines


def _word(tier: int) -> str:
    return _TIERS.get(tier, "switches")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    tail = (_LONGEST - 1) // 2
    return f"{text[: _LONGEST - 1 - tail]}…{text[-tail:]}"


def _tier_names(
    chosen: Boxes, places: Sequence[Place], ratios: dict[int, float], width: float
) -> Iterator[str]:
    for tier in sorted({box.tier for box in chosen.boxes}):
        of_tier = [(box, place) for box, place in zip(chosen.boxes, places, strict=True) if box.tier == tier]
        place = of_tier[0][1]
        number = sum(len(box.nodes) for box, _ in of_tier)
        middle = place.y + place.height / 2
        ratio = ratio_text(ratios, [row for box, _ in of_tier for row in box.nodes]) if tier == 1 else ""
        yield (
            f'<rect x="0" y="{place.y - 8:.1f}" width="{width:.0f}" height="{place.height + 16:.1f}" fill="{GRID}" '
            'fill-opacity="0.4"/>'
        )
        yield f'<text x="14" y="{middle - 2:.1f}"><tspan font-weight="600">{_word(tier)}</tspan> {number:,}</text>'
        yield f'<text x="14" y="{middle + 13:.1f}" font-size="11" fill="{MUTED}">{ratio}</text>'


def _lines(chosen: Boxes, places: Sequence[Place], names: Sequence[str]) -> Iterator[str]:
    ends, rooms = _ends(chosen, places)
    between: Counter[tuple[int, int]] = Counter(_rows(chosen, bundle) for bundle in chosen.bundles)
    usual = {
        rows: Counter(
            (bundle.count, bundle.gbps) for bundle in chosen.bundles if _rows(chosen, bundle) == rows
        ).most_common(1)[0][0]
        for rows in between
    }
    labels: list[str] = []
    taken: list[tuple[float, float, float]] = []  # middle and width of each
    # what is down lies on top
    for index, bundle in sorted(enumerate(chosen.bundles), key=lambda item: item[1].down > 0):
        (x1, y1), (x2, y2) = ends[index]
        rows = _rows(chosen, bundle)
        stroke = max(min(1.2 + 1.1 * math.log2(bundle.count), 8.0, 0.8 * rooms[index]), 0.8)
        told = _told(bundle, names)
        bend = 34 + abs(x2 - x1) * 0.06
        path = (
            f"M{x1:.1f} {y1:.1f}Q{(x1 + x2) / 2:.1f} {min(y1, y2) - bend:.1f} {x2:.1f} {y2:.1f}"
            if rows[0] == rows[1]
            else f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
        )
        if bundle.down < bundle.count:
            colour = rail_colour(bundle.rail)
            yield _path(path, colour, stroke, told)
        if bundle.down:
            yield _path(path, DOWN, max(2.0, min(stroke, 3.0)), told, ' stroke-dasharray="6 4"')
        label = _label(bundle, usual[rows], alone=between[rows] <= _LABELLED)
        if label:
            lift = -bend / 2 if rows[0] == rows[1] else 0.0
            room = len(label) * CHARACTER
            spots = [(x1 + (x2 - x1) * share, y1 + (y2 - y1) * share + lift) for share in _SHARES]
            free = (
                spot
                for spot in spots
                if all(
                    abs(spot[0] - x) > (room + width) / 2 or abs(spot[1] - y) > LINE for x, y, width in taken
                )
            )
            at = next(free, spots[0])
            taken.append((*at, room))
            labels.append(_tag(at, label, DOWN if bundle.down else INK))
    yield from labels
    yield from _usual(chosen, places, usual, between)


def _path(path: str, colour: str, stroke: float, told: str, more: str = "") -> str:
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{stroke:.1f}"{more}>'
        f"<title>{escape(told)}</title></path>"
    )


def _tag(at: tuple[float, float], text: str, colour: str) -> str:
    return (
        f'<text x="{at[0]:.1f}" y="{at[1] + 4:.1f}" text-anchor="middle" font-size="11" fill="{colour}" stroke="white" '
        f'stroke-width="3" paint-order="stroke">{escape(text)}</text>'
    )


def _label(bundle: Bundle, usual: tuple[int, float], *, alone: bool) -> str:
    """`4 x`, `1 of 4 down`, `2 x 100 Gbit/s`: what differs from the usual bundle between the two tiers."""
    if bundle.down:
        return "down" if bundle.count == 1 else f"{bundle.down} of {bundle.count} down"
    if bundle.gbps != usual[1] and bundle.gbps > 0:
        return f"{bundle.count} x {format_rate(bundle.gbps)}"
    return f"{bundle.count} x" if bundle.count != usual[0] and alone else ""


def _usual(
    chosen: Boxes,
    places: Sequence[Place],
    usual: dict[tuple[int, int], tuple[int, float]],
    between: Counter[tuple[int, int]],
) -> Iterator[str]:
    """One note between two neighbouring tiers: what a line without a number is."""
    top = {box.tier: place for box, place in zip(chosen.boxes, places, strict=True)}
    for (low, high), (count, gbps) in sorted(usual.items()):
        if low == high:
            continue
        y = (top[low].y + top[high].y + top[high].height) / 2
        many = "a line:" if between[low, high] > 1 else ""
        cables = f"{count:,} {'cable' if count == 1 else 'cables'}"
        rate = f"of {format_rate(gbps)}" if gbps else ""
        for place, text in enumerate(part for part in (many, cables, rate) if part):
            yield f'<text x="14" y="{y - 6 + place * 14:.1f}" font-size="11" fill="{MUTED}">{text}</text>'


def _told(bundle: Bundle, names: Sequence[str]) -> str:
    ends = [_cut(names[box], 200) for box in (bundle.a, bundle.b)]
    rail = f", rail {bundle.rail}" if bundle.rail >= 0 else ""
    down = f", {bundle.down} down" if bundle.down else ""
    rate = f" of {format_rate(bundle.gbps)}" if bundle.gbps else ""
    return f"{ends[0]} to {ends[1]}: {bundle.count} x cable{rate}{rail}{down}"


def _rows(chosen: Boxes, bundle: Bundle) -> tuple[int, int]:
    low, high = sorted((chosen.boxes[bundle.a].tier, chosen.boxes[bundle.b].tier))
    return low, high


def _ends(
    chosen: Boxes, places: Sequence[Place]
) -> tuple[list[tuple[tuple[float, float], tuple[float, float]]], list[float]]:
    """Where each bundle leaves its boxes, side by side in order of where they go and of rails; its room there."""
    leaving: dict[tuple[int, bool], list[tuple[float, int, int, int]]] = {}
    for index, bundle in enumerate(chosen.bundles):
        for side, (here, there) in enumerate(((bundle.a, bundle.b), (bundle.b, bundle.a))):
            up = chosen.boxes[there].tier >= chosen.boxes[here].tier
            x = places[there].x + places[there].width / 2
            leaving.setdefault((here, up), []).append((x, bundle.rail, index, side))
    found = [[(0.0, 0.0), (0.0, 0.0)] for _ in chosen.bundles]
    rooms = [math.inf] * len(found)
    for (box, up), members in leaving.items():
        place = places[box]
        for position, (_, _, index, side) in enumerate(sorted(members)):
            along = (position + 0.5) / len(members) - 0.5
            x = place.x + place.width * (0.5 + _EDGE * along)
            found[index][side] = (x, place.y if up else place.y + place.height)
            rooms[index] = min(rooms[index], place.width * _EDGE / len(members))
    return [(first, second) for first, second in found], rooms


def _boxes(
    chosen: Boxes, places: Sequence[Place], texts: Sequence[Sequence[str]], names: Sequence[str]
) -> Iterator[str]:
    for box, place, lines, all_names in zip(chosen.boxes, places, texts, names, strict=True):
        fill, radius = (HOST_FILL, 2) if box.tier == 0 else (SWITCH_FILL, 5)
        yield (
            f"<g><title>{escape(_cut(all_names, 2000))}</title>"
            f'<rect x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" '
            f'rx="{radius}" fill="{fill}" stroke="{MUTED}"/>'
        )
        if len(box.nodes) > 1:  # a second edge: more than one
            yield (
                f'<rect x="{place.x + 2:.1f}" y="{place.y + 2:.1f}" width="{place.width - 4:.1f}" '
                f'height="{place.height - 4:.1f}" rx="{radius}" fill="none" stroke="{MUTED}" stroke-opacity="0.5"/>'
            )
        x, y = place.x + place.width / 2, place.y + place.height / 2
        first = -(len(lines) - 1) * LINE / 2 + 4
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if place.upright else ""
        room = (place.height if place.upright else place.width) - 8
        for number, line in enumerate(lines):
            weight = ' font-weight="600"' if number == 0 else ""
            # only where the estimate says that it is too long: never wider than the box
            fit = (
                f' textLength="{room:.0f}" lengthAdjust="spacingAndGlyphs"'
                if len(line) * CHARACTER > room + 6
                else ""
            )
            yield (
                f'<text x="{x:.1f}" y="{y + first + number * LINE:.1f}" text-anchor="middle"{weight}{fit}{turn}>'
                f"{escape(line)}</text>"
            )
        yield "</g>"


def _domains(fabric: Fabric, chosen: Boxes, places: Sequence[Place]) -> Iterator[str]:
    """A bar under hosts that stand together and share an accelerator domain."""
    runs: list[tuple[frozenset[int], float, float, float]] = []
    for box, place in zip(chosen.boxes, places, strict=True):
        domains = frozenset(int(fabric.nodes.nvl_domain[row]) for row in box.nodes) - {-1}
        if box.tier != 0 or not domains:
            continue
        bottom = place.y + place.height
        if runs and runs[-1][0] == domains:
            runs[-1] = (domains, runs[-1][1], place.x + place.width, bottom)
        else:
            runs.append((domains, place.x, place.x + place.width, bottom))
    for domains, left, right, bottom in runs:
        low, high = min(domains), max(domains)
        text = (
            f"NVL {low}"
            if low == high
            else f"NVL {low}-{high}"
            if high - low + 1 == len(domains)
            else f"{len(domains)} NVL"
        )
        yield f'<path d="M{left:.1f} {bottom + 5:.1f}H{right:.1f}" stroke="{INK}" stroke-width="2.5"/>'
        yield f'<text x="{(left + right) / 2:.1f}" y="{bottom + 19:.1f}" font-size="11" text-anchor="middle">{text}</text>'


def _legend(fabric: Fabric, chosen: Boxes, y: float, width: float) -> tuple[list[str], float]:
    """(what colours and strokes mean, of those that are there; the height of the whole drawing)."""
    entries: list[tuple[str, str]] = []
    rails = sorted({bundle.rail for bundle in chosen.bundles if bundle.rail >= 0})
    entries += [(f'stroke="{rail_colour(rail)}" stroke-width="3"', f"rail {rail}") for rail in rails]
    if any(bundle.rail < 0 for bundle in chosen.bundles):
        entries.append(
            (f'stroke="{rail_colour(-1)}" stroke-width="3"', "of no single rail" if rails else "cables")
        )
    if any(bundle.down for bundle in chosen.bundles):
        entries.append((f'stroke="{DOWN}" stroke-width="2.5" stroke-dasharray="6 4"', "down"))
    if len({bundle.count for bundle in chosen.bundles}) > 1:
        entries.append((f'stroke="{rail_colour(-1)}" stroke-width="6"', "more cables"))
    lines, x = [], SIDE
    for stroke, text in entries:
        if x + 50 + len(text) * CHARACTER > width:
            x, y = SIDE, y + 22
        lines.append(f'<path d="M{x:.0f} {y:.1f}h26" {stroke}/>')
        lines.append(f'<text x="{x + 32:.0f}" y="{y + 4:.1f}">{text}</text>')
        x += 50 + len(text) * CHARACTER
    for note in _notes(fabric, chosen):
        y += 22
        lines.append(f'<text x="{SIDE:.0f}" y="{y + 4:.1f}" fill="{MUTED}">{escape(note)}</text>')
    return lines, y + 18


def _notes(fabric: Fabric, chosen: Boxes) -> Iterable[str]:
    if oversubscription(fabric):
        yield "2:1 at leaves: their links to hosts have twice the speed of their uplinks"
    if chosen.hidden:
        yield f"{chosen.hidden:,} cables are inside boxes"
    if any(len(box.nodes) > 1 for box in chosen.boxes):
        yield "a double edge: several nodes"
    if any(fabric.nodes.kind == NodeKind.SWITCH) and any(fabric.nodes.tier < 0):
        yield "the top row: tier not known"
