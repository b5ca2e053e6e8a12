"""The report of a simulation: both runs as text, JSON, or one HTML page."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape

from evaluator.tools.backtest.page import document
from evaluator.tools.closed_loop.use import Outcome
from evaluator.tools.simulate.picture import as_svg

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
    "applications. docs/backtest.md has the error of the model."
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
