"""The tables of docs/placement.md and README.md, from bench/results/placement*.json."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from lab.simulate.report import as_svg

RESULTS = Path(__file__).resolve().parent.parent / "bench/results"
MODEL = RESULTS / "placement.json"
REAL = RESULTS / "placement-real.json"
PICTURE = RESULTS / "placement-use.json"

Line = Mapping[str, Any]

_COLUMNS = {
    "hot_percent": "hot",
    "unmet_percent": "unmet",
    "most_percent": "highest",
    "pending_percent": "pending",
    "moves": "moves",
    "at_once": "at once",
}
_LOADS = {
    "planetlab-50-steady": "50 %, steady",
    "planetlab-50-burst": "50 %, bursts",
    "planetlab-70-steady": "70 %, steady",
    "planetlab-70-burst": "70 %, bursts",
}


def read(path: Path) -> list[Line]:
    """Return the lines of a run of the benchmark, by `--output`."""
    found: list[Line] = json.loads(path.read_text())
    return found


def tables() -> Iterator[str]:
    """Return the tables of docs/placement.md over PlanetLab: all systems, hot node-minutes by load, nodes needed."""
    lines = read(MODEL)
    by_system: dict[str, dict[str, Line]] = defaultdict(dict)
    for one in lines:
        if one["scenario"] in _LOADS:
            by_system[one["system"]][one["scenario"]] = one
    complete = {name: found for name, found in by_system.items() if found.keys() == _LOADS.keys()}
    yield from _head(_COLUMNS.values())
    for name, found in complete.items():
        cells = (_cell(key, mean(one[key] for one in found.values())) for key in _COLUMNS)
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield from ("", "Hot node-minutes by load, with the standard deviation over days:", "")
    yield from _head(_LOADS.values())
    for name, found in complete.items():
        hot = (
            (found[load]["hot_percent"], found[load]["spread"]["hot_percent"]) for load in _LOADS
        )
        yield f"| `{name}` | {' | '.join(f'{value:.1f} ± {spread:.1f}' for value, spread in hot)} |"
    for one in (line for line in lines if line["scenario"] == "nodes"):
        yield ""
        yield (
            f"At 70 %, steady, `{one['system']}` needs {one['nodes']} nodes to leave no more demand unmet than the default "
            f"plugins on {one['of']}."
        )


def _head(columns: Iterable[str]) -> Iterator[str]:
    names = ["system", *columns]
    yield f"| {' | '.join(names)} |"
    yield "|" + "---|" * len(names)


def _cell(key: str, value: float) -> str:
    if key == "unmet_percent":
        return f"{value:.2f}"
    return f"{value:.0f}" if key in ("moves", "at_once") else f"{value:.1f}"


def summary() -> Iterator[str]:
    """Return the table of README.md: the means over PlanetLab of few systems."""
    lines = read(MODEL)
    yield "| PlanetLab traces, mean over days, loads, steady and burst | hot node-minutes | unmet demand | moved pods |"
    yield "|---|---|---|---|"
    for system, title in _SHOWN.items():
        found = [one for one in lines if one["system"] == system and one["scenario"] in _LOADS]
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


def error() -> Iterator[str]:
    """Return a table of the same worlds in both engines, for docs/placement.md."""
    lines = read(REAL)
    yield "| scenario | system | runs | hot: real; model | unmet: real; model | highest demand: real; model | at once: real; model |"
    yield "|---|---|---|---|---|---|---|"
    by_key = {(one["scenario"], one["system"]): one for one in lines if one["engine"] == "model"}
    for one in (line for line in lines if line["engine"] == "real"):
        name = one["system"]
        named = ((one["scenario"], known) for known in (name, f"{name}-model"))
        other = next((by_key[key] for key in named if key in by_key), None)
        cells = (_both(one, other, key) for key in _COMPARED)
        yield f"| `{one['scenario']}` | `{name}` | {one['runs']} | {' | '.join(cells)} |"


_COMPARED = ("hot_percent", "unmet_percent", "most_percent", "at_once")


def _both(real: Line, model: Line | None, name: str) -> str:
    texts = [
        "no model" if line is None else f"{line[name]:.1f}" + _spread(line, name)
        for line in (real, model)
    ]
    return "; ".join(texts)


def _spread(line: Line, name: str) -> str:
    return f" ± {line['spread'][name]:.1f}" if line["runs"] > 1 else ""


_SHOWN = {
    "default": "kube-scheduler's default plugins",
    "tas-w1-model": "with Telemetry Aware Scheduling (model)",
    "descheduler-one-model": "with descheduler's LowNodeUtilization (model)",
    "plimsoll-value-w5": "with Plimsoll",
    "plimsoll-value-w5-evict": "with Plimsoll and `--evict`",
}
