"""Fixtures for reports: the made-up report, its fabrics, and a reader of what charts draw."""

from __future__ import annotations

import importlib.util
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib import font_manager

LEAST_FONT_PX = 9.0
SLACK_PX = 1.0


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


@pytest.fixture(scope="session")
def sample_report(sample):
    """The made-up report with every kind of part; drawn once."""
    return sample.sample_report()


@pytest.fixture(scope="session")
def unreadable() -> Callable[[str], list[str]]:
    """What a reader of an SVG would stumble over: texts that overlap, are cut off or are too small."""
    return _unreadable


@dataclass(frozen=True)
class DrawnText:
    text: str
    size: float
    corners: np.ndarray


def drawn_texts(svg: str) -> list[DrawnText]:
    """The texts of an SVG of `reports.charts` with their outlines in DejaVu Sans, the widest font that may be used."""
    reader = _SvgReader()
    reader.feed(svg)
    return reader.texts


def _unreadable(svg: str) -> list[str]:
    size = re.search(r"viewBox=\"0 0 ([\d.]+) ([\d.]+)\"", svg)
    assert size is not None
    whole = np.array([float(size[1]), float(size[2])])
    texts = drawn_texts(svg)
    faults = [f"{one.text!r} has {one.size} px" for one in texts if one.size < LEAST_FONT_PX]
    faults += [
        f"{one.text!r} is cut off"
        for one in texts
        if one.corners.min() < -SLACK_PX or (one.corners > whole + SLACK_PX).any()
    ]
    faults += [
        f"{a.text!r} lies on {b.text!r}" for a, b in itertools.combinations(texts, 2) if _overlap(a, b)
    ]
    return faults


class _SvgReader(HTMLParser):
    """Collects <text> elements as matplotlib writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[DrawnText] = []
        self._open: dict[str, str] | None = None

    def handle_starttag(self, tag, attrs):
        self._open = {key: value or "" for key, value in attrs} if tag == "text" else None

    def handle_data(self, data):
        if self._open is not None and data.strip():
            self.texts.append(_drawn(data.strip(), self._open))
            self._open = None


def _drawn(text: str, attributes: dict[str, str]) -> DrawnText:
    style, transform = attributes["style"], attributes.get("transform", "")
    size_match = re.search(r"([\d.]+)px", style)
    assert size_match is not None
    size = float(size_match[1])
    bold = bool(re.search(r"\b(700|bold)\b", style))
    font = font_manager.get_font(font_manager.findfont(f"DejaVu Sans:{'bold' if bold else 'regular'}"))
    font.set_size(size, 72)
    font.set_text(text)
    width = font.get_width_height()[0] / 64
    anchor = re.search(r"text-anchor: (\w+)", style)
    left = {"middle": -width / 2, "end": -width}.get(anchor[1] if anchor else "start", 0.0)
    turn = re.search(r"rotate\((-?[\d.]+)", transform)
    angle = math.radians(float(turn[1])) if turn else 0.0
    moved = re.search(r"translate\((-?[\d.]+)[ ,]+(-?[\d.]+)\)", transform)
    at = [float(moved[1]), float(moved[2])] if moved else [float(attributes["x"]), float(attributes["y"])]
    rise = 0.72 * size - 0.5  # capitals; half a pixel of touching is no fault
    box = np.array([[left, 0.0], [left + width, 0.0], [left + width, -rise], [left, -rise]])
    cos, sin = math.cos(angle), math.sin(angle)
    return DrawnText(text, size, box @ np.array([[cos, sin], [-sin, cos]]) + np.array(at))


def _overlap(a: DrawnText, b: DrawnText) -> bool:
    """Separating axes of two rectangles."""
    for box in (a.corners, b.corners):
        for side in (box[1] - box[0], box[2] - box[1]):
            along_a, along_b = a.corners @ side, b.corners @ side
            if along_a.max() <= along_b.min() or along_b.max() <= along_a.min():
                return False
    return True
