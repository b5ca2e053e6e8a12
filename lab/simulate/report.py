"""The report of a simulation: both runs as text, JSON, or one HTML page with a picture of the use of every node."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from evaluator.core.model.arrays import Floats
from lab.backtest.page import document
from lab.closed_loop.use import Outcome

_WIDTH, _HEIGHT = 900, 250
_LEFT, _TOP, _GAP, _BOTTOM = 52, 34, 18, 28
_HOT = 0.8
_MOST_POINTS = 96
_STYLE = """
svg{background:transparent;font:12px system-ui,sans-serif}
text{fill:#1f2328}.n{fill:none;stroke:#3457a6;stroke-width:1;opacity:.35}.a{stroke:#8b949e;stroke-width:1;fill:none}
.h{fill:#b3261e;opacity:.10}.t{stroke:#b3261e;stroke-width:1;stroke-dasharray:4 3}.b{font-weight:600}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{stroke:#8ab4ff}.h{fill:#ff8a80;opacity:.14}.t{stroke:#ff8a80}}
"""


def as_svg(runs: Sequence[tuple[str, Floats]], minutes: float) -> str:
    """Return the picture of runs side by side. Each has a title and the use as shares, shape (intervals, nodes)."""
    total = _WIDTH * len(runs) // 2 if len(runs) > 1 else _WIDTH // 2
    panel = (total - _LEFT - _GAP * len(runs)) / len(runs)
    height = _TOP + _HEIGHT + _BOTTOM
    title = "; ".join(name for name, _ in runs)
    ticks = (
        f'<text x="{_LEFT - 6}" y="{_y(share) + 4:g}" text-anchor="end">{100 * share:.0f} %</text>'
        for share in (0.0, 0.5, _HOT, 1.0)
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" role="img">',
        f"<title>CPU use of each node over time: {escape(title)}</title><style>{_STYLE}</style>",
        *ticks,
    ]
    for number, (name, use) in enumerate(runs):
        left = _LEFT + number * (panel + _GAP)
        parts += _panel(name, use, left, panel, minutes)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _y(share: float) -> float:
    return _TOP + _HEIGHT * (1 - share)


def _panel(name: str, use: Floats, left: float, width: float, minutes: float) -> Iterator[str]:
    right, bottom = left + width, _TOP + _HEIGHT
    yield f'<text class="b" x="{left:g}" y="{_TOP - 12}">{escape(name)}</text>'
    yield f'<rect class="h" x="{left:g}" y="{_TOP}" width="{width:g}" height="{_HEIGHT * (1 - _HOT):g}"/>'
    for node in _reduced(use).T:
        x = np.linspace(left, right, len(node))
        points = " ".join(
            f"{a:.0f},{b:.0f}" for a, b in zip(x, _TOP + _HEIGHT * (1 - node), strict=True)
        )
        yield f'<polyline class="n" points="{points}"/>'
    yield f'<path class="t" d="M{left:g} {_y(_HOT):g}H{right:g}"/>'
    yield f'<path class="a" d="M{left:g} {_TOP}V{bottom}H{right:g}"/>'
    yield f'<text x="{left:g}" y="{bottom + 18}">0</text>'
    yield f'<text x="{right:g}" y="{bottom + 18}" text-anchor="end">{minutes:.0f} min</text>'


def _reduced(use: Floats) -> Floats:
    """Return means of equal parts, so that a line has at most so many points."""
    parts = np.array_split(use, min(len(use), _MOST_POINTS))
    return np.array([part.mean(axis=0) for part in parts])


FIGURES = {
    "hot_percent": "node-minutes over 80 %",
    "over_percent": "node-minutes with more demand than cores",
    "unmet_percent": "demand not met",
    "p50_percent": "use of a node, median",
    "p99_percent": "use of a node, p99",
    "deviation_percent": "standard deviation between nodes",
    "most_percent": "highest demand on one node",
    "pods": "pods placed",
    "pending": "pods pending at the end",
    "waited": "pods that waited over a minute",
    "moves": "pods moved",
}
"""Figures of `Outcome` with their meaning, in the order of the report."""
NOTE = (
    "CPU of nodes only, in a closed loop with a model of kube-scheduler's default plugins; it says nothing about the latency of "
    "applications. docs/placement.md has the error of the model."
)


@dataclass(frozen=True)
class Comparison:
    """The same pods without and with the policy. `minutes`: the length of the simulation."""

    about: str
    policy: str
    default: Outcome
    simulated: Outcome
    minutes: float

    @property
    def svg(self) -> str:
        """The picture of both runs."""
        runs = [("default plugins", self.default.use), (self.policy, self.simulated.use)]
        return as_svg(runs, self.minutes)


def as_text(found: Comparison) -> str:
    """Return a table of both runs."""
    rows = [f"{found.about}.", "", f"{'':42}{'default':>10}  {found.policy}"]
    for name, meaning in FIGURES.items():
        unit = " %" if name.endswith("_percent") else ""
        before, after = (_number(run.figures[name]) for run in (found.default, found.simulated))
        rows.append(f"{meaning:42}{before + unit:>10}  {after}{unit}")
    return "\n".join([*rows, "", NOTE]) + "\n"


def as_json(found: Comparison) -> str:
    """Return the figures of both runs."""
    value = {
        "about": found.about,
        "policy": found.policy,
        "default": dict(found.default.figures),
        "simulated": dict(found.simulated.figures),
        "note": NOTE,
    }
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def as_html(found: Comparison) -> str:
    """Return one page: the picture, and the table. It has no script and loads nothing."""
    body = [found.svg, "<h2>Summary</h2>", f"<pre>{escape(as_text(found))}</pre>"]
    return document(f"Simulation of {found.policy}", NOTE, body)


def as_picture(found: Comparison) -> str:
    """Return the picture alone."""
    return found.svg


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


OUTPUTS: Mapping[str, Callable[[Comparison], str]] = {
    "text": as_text,
    "json": as_json,
    "html": as_html,
    "svg": as_picture,
}
