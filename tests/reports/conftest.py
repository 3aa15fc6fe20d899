"""Fixtures for reports: the made-up report, its fabrics, and a watch over what charts draw."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as MplFigure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

LEAST_FONT_PX = 9.0


@pytest.fixture(scope="session")
def sample() -> ModuleType:
    """The module that makes the made-up report."""
    path = Path(__file__).with_name("sample_report.py")
    spec = importlib.util.spec_from_file_location("sample_report", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def layout_faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is unreadable in the charts drawn meanwhile: texts that overlap, leave the figure or are too small."""
    faults: list[str] = []
    saved = MplFigure.savefig

    def watched(self: MplFigure, *args, **kwargs):
        result = saved(self, *args, **kwargs)
        faults.extend(_faults(self))
        return result

    monkeypatch.setattr(MplFigure, "savefig", watched)
    yield faults


def _faults(figure: MplFigure) -> list[str]:
    renderer = FigureCanvasAgg(figure).get_renderer()
    shown: list[tuple[str, Bbox]] = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_visible() and text.get_text().strip() and _reaches(text, renderer):
            shown.append((text.get_text(), text.get_window_extent(renderer).padded(-1.0)))
            if text.get_fontsize() < LEAST_FONT_PX:
                return [f"{text.get_text()!r} has a font of {text.get_fontsize()} px"]
    whole = figure.bbox.padded(1.0)
    faults = [f"{name!r} leaves the figure" for name, box in shown if not _inside(box, whole)]
    for index, (name, box) in enumerate(shown):
        faults += [f"{name!r} lies on {other!r}" for other, there in shown[index + 1 :] if box.overlaps(there)]
    return faults


def _reaches(text: Text, renderer: object) -> bool:
    """Tick labels outside the limits of their axis exist but are not drawn."""
    axes = text.axes
    if axes is None or text not in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        return True
    x, y = text.get_position()
    horizontal = text in axes.get_xticklabels()
    low, high = sorted(axes.get_xlim() if horizontal else axes.get_ylim())
    return bool(low - 1e-9 <= (x if horizontal else y) <= high + 1e-9)


def _inside(box: Bbox, whole: Bbox) -> bool:
    return box.x0 >= whole.x0 and box.y0 >= whole.y0 and box.x1 <= whole.x1 and box.y1 <= whole.y1
