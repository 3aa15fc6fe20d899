"""matplotlib's SVG made fit to stand inside an HTML page many times over, and alone as a file."""

from __future__ import annotations

import hashlib
import re

# The figures are laid out for DejaVu Sans, which is wider than what a reader's system has: nothing can overlap then.
_FONTS = re.compile(r"'DejaVu Sans'[^;\"]*")
_PAGE_FONTS = "system-ui,'Segoe UI',Roboto,Arial,sans-serif"
_GLOBAL_STYLE = re.compile(r"\s*<defs>\s*<style type=\"text/css\">[^<]*</style>\s*</defs>")
_SHRINK = 0.6  # on a phone a figure is scaled down so far and then scrolled


def inline(raw: str) -> str:
    """An `<svg>` element for HTML out of a whole SVG file of matplotlib.

    No XML head and no name space (HTML needs none), ids unique in the page, no style that leaks into the page.
    """
    start = raw.index("<svg")
    size = re.search(r"viewBox=\"0 0 ([\d.]+) ([\d.]+)\"", raw)
    if size is None:
        raise ValueError("an SVG without a viewBox")
    width, height = float(size[1]), float(size[2])
    body = _GLOBAL_STYLE.sub("", raw[raw.index(">", start) + 1 :], count=1)
    body = _FONTS.sub(_PAGE_FONTS, body.replace("xlink:href", "href"))
    body = re.sub(r"\s*\n\s*", "\n", body.strip())
    head = (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'style="stroke-linejoin:round;stroke-linecap:butt;min-width:{width * _SHRINK:.0f}px">'
    )
    return _own_ids(head + "\n" + body)


def standalone(svg: str) -> str:
    """A file of its own out of an inline `<svg>`, for a README or a slide."""
    head = '<svg xmlns="http://www.w3.org/2000/svg"'
    return '<?xml version="1.0" encoding="utf-8"?>\n' + svg.replace("<svg", head, 1) + "\n"


def _own_ids(svg: str) -> str:
    """Keep the ids that are referred to, with a prefix that belongs to this drawing; drop the others."""
    used = set(re.findall(r"href=\"#([^\"]+)\"|url\(#([^)]+)\)", svg))
    wanted = {first or second for first, second in used}
    prefix = "c" + hashlib.sha256(svg.encode()).hexdigest()[:10] + "-"

    def renamed(match: re.Match[str]) -> str:
        return f' id="{prefix}{match[1]}"' if match[1] in wanted else ""

    svg = re.sub(r" id=\"([^\"]*)\"", renamed, svg)
    return re.sub(r"(href=\"#|url\(#)", rf"\g<1>{prefix}", svg)
