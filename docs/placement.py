"""Writes docs/placement.md, and the figures in README.md and docs/backtest.md, from bench/results/placement*.json."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from lab.simulate.report import as_svg

RESULTS = Path(__file__).resolve().parent.parent / "bench/results"
MODEL = RESULTS / "placement.json"
REAL = RESULTS / "placement-real.json"
PICTURE = RESULTS / "placement-use.json"
PLANETLAB = (
    "planetlab-50-steady",
    "planetlab-50-burst",
    "planetlab-70-steady",
    "planetlab-70-burst",
)
HALF = PLANETLAB[:2]

Line = Mapping[str, Any]

_COLUMNS = {
    "hot_percent": "hot",
    "over_percent": "over",
    "unmet_percent": "unmet",
    "p50_percent": "p50",
    "p99_percent": "p99",
    "deviation_percent": "deviation",
    "most_percent": "highest",
    "pending_percent": "pending",
    "waited": "waited",
    "moves": "moves",
    "writes": "writes",
    "at_once": "at once",
}


def read(path: Path) -> list[Line]:
    """Return the lines of a run of the benchmark, by `--output`."""
    found: list[Line] = json.loads(path.read_text())
    return [
        {"writes": one.get("moves"), **one} for one in found
    ]  # without labels, evictions are all


def page() -> Iterator[str]:
    """Return the lines of docs/placement.md."""
    model, real = read(MODEL), read(REAL)
    yield from _INTRODUCTION
    yield from ("", "## PlanetLab: mean over days, loads, steady and burst", "")
    days = sorted({day for one in model for day in one.get("days", ())})
    yield f"Traces of {', '.join(days)}; {max(one.get('runs', 0) for one in model)} simulations for each row of the tables below."
    yield ""
    yield from _overall(model)
    for name in PLANETLAB:
        yield from ("", f"### {_TITLES[name]}", "")
        yield from _scenario(model, name)
    for name in ("full", "burst", "right", "second"):
        yield from ("", f"## {_TITLES[name]}", "", *_ABOUT.get(name, ()))
        yield from _scenario(model, name)
    yield from ("", "## Aims", "")
    yield from aims(model)
    yield from ("", "## Nodes needed at equal unmet demand", "")
    yield from _nodes(model)
    yield from ("", "## The model beside the real kube-scheduler", "")
    yield from error(real)
    yield from _LIMITS


def summary() -> Iterator[str]:
    """Return the table of README.md: the means over PlanetLab of few systems."""
    lines = read(MODEL)
    yield "| PlanetLab traces, mean over days, loads, steady and burst | hot node-minutes | unmet demand | moved pods |"
    yield "|---|---|---|---|"
    for system, title in _SHOWN.items():
        found = [one for one in lines if one["system"] == system and one["scenario"] in PLANETLAB]
        if found:
            hot, unmet, moves = (
                mean(one[name] for one in found)
                for name in ("hot_percent", "unmet_percent", "moves")
            )
            yield f"| {title} | {hot:.1f} % | {unmet:.2f} % | {moves:.0f} |"


def picture() -> str:
    """Return the picture of README.md: the use of each node with the default plugins and with Plimsoll."""
    found = json.loads(PICTURE.read_text())
    runs = [(one["title"], np.array(one["use_percent"]) / 100) for one in found["runs"]]
    return as_svg(runs, found["minutes"])


def error_table() -> Iterator[str]:
    """Return the same table for docs/backtest.md."""
    yield from error(read(REAL))


def error(lines: Sequence[Line]) -> Iterator[str]:
    """Return a table of the same worlds in both engines, from lines of both."""
    yield "The same worlds, pods and seeds, on kube-apiserver, kube-scheduler and the system's own program, beside the model:"
    yield ""
    yield "| scenario | system | runs | hot: real; model | unmet: real; model | highest demand: real; model | at once: real; model |"
    yield "|---|---|---|---|---|---|---|"
    by_key = {(one["scenario"], one["system"]): one for one in lines if one["engine"] == "model"}
    for one in (line for line in lines if line["engine"] == "real"):
        name = one["system"]
        named = ((one["scenario"], known) for known in (name, f"{name}-model"))
        other = next((by_key[key] for key in named if key in by_key), None)
        cells = (_both(one, other, key) for key in _COMPARED)
        yield f"| `{one['scenario']}` | `{name}` | {one['runs']} | {' | '.join(cells)} |"
    yield ""
    yield "Telemetry Aware Scheduling's program sends more pods to one node than its model, so tables of the model favour it."
    yield "`±` is the standard deviation over runs; several runs differ in their pods. " + _FACTOR


_COMPARED = ("hot_percent", "unmet_percent", "most_percent", "at_once")


def _both(real: Line, model: Line | None, name: str) -> str:
    texts = [
        "no model" if line is None else f"{line[name]:.1f}" + _spread(line, name)
        for line in (real, model)
    ]
    return "; ".join(texts)


def _spread(line: Line, name: str) -> str:
    return f" ± {line['spread'][name]:.1f}" if line["runs"] > 1 else ""


def aims(lines: Sequence[Line]) -> Iterator[str]:
    """Return a table of the aims: each a figure of Plimsoll divided by another system's, and the most that it may be."""
    yield "| figure | beside | ratio | aim | met |"
    yield "|---|---|---|---|---|"
    for scenarios, system, figure, other, most in _AIMS:
        ours, theirs = (_mean(lines, scenarios, name, figure) for name in (system, other))
        if ours is None or theirs is None:
            continue
        ratio = ours / theirs if theirs else float(ours > 0)
        named = _NAMES.get(scenarios, scenarios[0])
        met = "yes" if ratio <= most else "**no**"
        yield f"| {named}, `{system}`: {_COLUMNS[figure]} | `{other}` | {ratio:.2f} | ≤ {most:g} | {met} |"
    yield ""
    yield from _BOUND


def _mean(
    lines: Sequence[Line], scenarios: Sequence[str], system: str, figure: str
) -> float | None:
    found = [
        one[figure] for one in lines if one["system"] == system and one["scenario"] in scenarios
    ]
    return mean(found) if len(found) == len(scenarios) else None


_NAMES = {PLANETLAB: "PlanetLab", HALF: "PlanetLab at 50 %"}
_OURS, _MOVING = "plimsoll-value-w5", "plimsoll-value-w5-evict"
_AIMS: Sequence[tuple[tuple[str, ...], str, str, str, float]] = (
    (PLANETLAB, _OURS, "hot_percent", "default", 0.5),
    (PLANETLAB, _OURS, "hot_percent", "tas-w1-model", 0.5),
    (PLANETLAB, _OURS, "hot_percent", "trimaran-packing-model", 1.0),
    (PLANETLAB, _OURS, "hot_percent", "trimaran-risk-model", 1.0),
    (PLANETLAB, _OURS, "hot_percent", "koordinator-model", 1.0),
    (PLANETLAB, _OURS, "unmet_percent", "default", 0.5),
    (PLANETLAB, _MOVING, "hot_percent", "default", 0.25),
    (PLANETLAB, _MOVING, "hot_percent", "descheduler-one-model", 0.5),
    (PLANETLAB, _MOVING, "moves", "descheduler-one-model", 1.0),
    (PLANETLAB, _MOVING, "unmet_percent", "default", 0.1),
    (HALF, _OURS, "hot_percent", "default", 0.5),
    (HALF, _OURS, "hot_percent", "tas-w1-model", 0.5),
    (HALF, _OURS, "hot_percent", "koordinator-model", 1.0),
    (HALF, _MOVING, "hot_percent", "default", 0.25),
    (HALF, _MOVING, "hot_percent", "descheduler-one-model", 0.5),
    (HALF, _MOVING, "unmet_percent", "default", 0.1),
    (("burst",), "plimsoll-value-w1", "most_percent", "default", 1.1),
    (("burst",), "plimsoll-value-w10", "most_percent", "default", 1.1),
    (("right",), "plimsoll-value-w1", "deviation_percent", "default", 0.6),
    (("right",), "plimsoll-value-w10", "deviation_percent", "default", 0.6),
    (("second",), "plimsoll-value-w1", "deviation_percent", "default", 0.6),
    (("second",), "plimsoll-value-w10", "deviation_percent", "default", 0.6),
    (("full",), _OURS, "hot_percent", "default", 1.0),
)
"""Scenarios, system, figure, the other system, and the largest ratio; a pod of the burst is a tenth of a node."""
_BOUND = (
    "What bounds the misses on PlanetLab is the load of 70 %. `oracle` knows each pod's mean demand beforehand, and",
    "leaves as many hot node-minutes and as much unmet demand: consecutive five minutes of these traces are nearly",
    "independent, so no ranking foresees them. Evictions need a node with room, and a quarter of all node-minutes are",
    "over 80 % at that load: they take a tenth of those away. koordinator's nodes stay cooler at any load because it",
    "refuses nodes above 65 %: a quarter of its pods' time is spent pending.",
)


def _overall(lines: Sequence[Line]) -> Iterator[str]:
    by_system: dict[str, list[Line]] = defaultdict(list)
    for one in lines:
        if one["scenario"] in PLANETLAB:
            by_system[one["system"]].append(one)
    complete = {name: found for name, found in by_system.items() if len(found) == len(PLANETLAB)}
    yield from _table(
        (name, {key: mean(one[key] for one in found) for key in _COLUMNS})
        for name, found in complete.items()
    )


def _scenario(lines: Sequence[Line], name: str) -> Iterator[str]:
    yield from _table(
        (one["system"], one, one["spread"]) for one in lines if one["scenario"] == name
    )


def _table(rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    yield "| system | " + " | ".join(_COLUMNS.values()) + " |"
    yield "|---|" + "---|" * len(_COLUMNS)
    for system, figures, *spread in rows:
        cells = (_cell(key, figures, spread[0] if spread else {}) for key in _COLUMNS)
        yield f"| `{system}` | " + " | ".join(cells) + " |"


def _cell(key: str, figures: Line, spread: Line) -> str:
    text = f"{figures[key]:.2f}" if key == "unmet_percent" else f"{figures[key]:.1f}"
    if key in ("pods", "waited", "moves", "writes", "at_once"):
        text = f"{figures[key]:.0f}"
    return f"{text} ± {spread[key]:.1f}" if key in spread and key == "hot_percent" else text


def _nodes(lines: Sequence[Line]) -> Iterator[str]:
    found = [one for one in lines if one["scenario"] == "nodes"]
    yield "The least number of nodes on which no more demand is unmet than with the default plugins on all of them, 70 % steady:"
    yield ""
    yield "| system | nodes | of | share |"
    yield "|---|---|---|---|"
    for one in found:
        share = 100 * one["nodes"] / one["of"]
        yield f"| `{one['system']}` | {one['nodes']} | {one['of']} | {share:.0f} % |"


_SHOWN = {
    "default": "kube-scheduler's default plugins",
    "tas-w1-model": "with Telemetry Aware Scheduling (model)",
    "descheduler-one-model": "with descheduler's LowNodeUtilization (model)",
    "plimsoll-value-w5": "with Plimsoll",
    "plimsoll-value-w5-evict": "with Plimsoll and `--evict`",
}
_TITLES = {
    "planetlab-50-steady": "Load 50 %, steady",
    "planetlab-50-burst": "Load 50 %, bursts",
    "planetlab-70-steady": "Load 70 %, steady",
    "planetlab-70-burst": "Load 70 %, bursts",
    "full": "A cluster that requests fill",
    "burst": "A burst with requests of a quarter of the use",
    "right": "The same burst with requests that are right",
    "second": "The same burst again",
}
_ABOUT = {
    "full": (
        "Load 30 %, requests of three times the mean use: requests decide where pods fit, and no ranking changes much.",
        "",
    ),
    "burst": (
        "100 pods at once on 20 nodes of 8 cores that use 2 to 4; each requests 0.2 cores and uses 0.8. `at once`: most pods",
        "that one node got between two readings.",
        "",
    ),
    "second": ("The first 100 pods ended before these arrive.", ""),
}
_INTRODUCTION = (
    "# Placement",
    "",
    "For readers who compare ranking by measured use with other schedulers.",
    "",
    "What ranking nodes by what they measure is worth, in a closed loop: placement decides the use of",
    "nodes, and use decides what systems read. `python -P bench/placement/table.py --help` runs it.",
    "",
    "## Method",
    "",
    "- **Pods** follow CPU traces of PlanetLab, the standard of papers on consolidation: one machine's day,",
    "  288 percentages at 5 minutes, from a random offset, times the pod's limit of 2, 4 or 8 cores. They",
    "  request what such pods use on average, and live 60 to 120 minutes. A third of a burst's pods, half of",
    "  them of Deployments, arrives at one moment every 30 minutes; steady pods are a Poisson process.",
    "- **Nodes**: 60 of 16 cores. Loads of 50 and 70 % of all cores. Four hours, of which the last three",
    "  count. Several days of traces and seeds. All systems get the same pods, at the same times.",
    "- **hot**: node-minutes over 80 % of CPU; **over**: with more demand than cores; **unmet**: share of",
    "  the demand above the cores; **deviation**: of demand between nodes, in percent of a node; **highest**:",
    "  demand on one node;",
    "  **pending**: share of pod-time in which pods wait; **waited**: pods that waited over a minute;",
    "  **writes**: to the API beside bindings: evictions, and changes of node labels.",
    "- **Systems** named `-model` are models of published formulas with default settings, not the programs:",
    "  scheduler-plugins and koordinator do not vendor their modules. `plimsoll-…` runs the evaluator's own",
    "  code; `before` ranks by the last reading alone, as it and Telemetry Aware Scheduling did; `w` is the",
    "  extender's weight; `evict` is `--evict` with its default limits; `labels`, in place of it descheduler",
    "  with deploy/descheduler every 2 minutes, and pods with an affinity against the label. `oracle` is a",
    "  bound, not a system: it knows the mean demand of every pod beforehand, and ranks by that alone",
    "  (PlanetLab only).",
    "- **Lags**: Plimsoll reads every 5 s the mean of a minute; Telemetry Aware Scheduling the same, 15 s",
    "  and 5 s later; Trimaran polls every 30 s (packing: 30 s means of metrics-server; risk: 15 minutes);",
    "  koordinator reports 5 minute means every 60 s; descheduler runs every 2 minutes on metrics-server.",
)
_LIMITS = (
    "",
    "## Limits",
    "",
    "- Node-level effects only: a trace is replayed as it was, so nothing follows for the latency or the",
    "  throughput of an application. Unmet demand is lost, and does not come later.",
    "- All nodes are equal, and all pods name one policy. CPU decides; memory is requested and never short.",
    "- The five minutes of PlanetLab hide shorter peaks, and consecutive values are nearly independent: what",
    "  is left after balancing means is noise that placement cannot foresee.",
    "- koordinator rejects nodes above 65 % of CPU and counts new pods with their limits, so its pods wait:",
    "  compare `hot` with `pending`.",
)
_FACTOR = (
    "`small` is compressed 20 times: five minutes of a trace take 15 s, while windows and intervals of "
    "readings keep their time, so readings lag 20 times as much."
)
