"""Placement in a closed loop: how hot nodes get with Plimsoll and with other systems, for the same pods.

Prints one JSON line per scenario and system: mean and spread of each figure over days and seeds. `--engine model` runs over
virtual time, with a model of kube-scheduler; `--engine real` runs kube-apiserver, kube-scheduler and the evaluator of
KUBEBUILDER_ASSETS in real time, with traces `--factor` times as fast. `--fewer` also finds the number of nodes on which each
system leaves no more demand unmet than the default plugins do on all. `--picture` only writes the use of each node over time on
the first day, with the default plugins and with Plimsoll: the data of the picture in README.md.

    python -P bench/placement/table.py [--traces DAY.csv.gz,...] [--systems default,plimsoll-value-w5] [--output FILE]
    KUBEBUILDER_ASSETS=... python -P bench/placement/table.py --engine real --scenarios burst [--tas PATH --systems tas-w1]

Without --traces, pods have generated traces. Traces: one machine a line, 288 percentages of CPU at 5 minutes; gzip or not.
"""

import json
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from bench import commandline
from bench.commandline import Line
from bench.placement import real
from bench.placement.model import GENERATED, Ran, Run, simulate, simulated
from bench.placement.programs import PROGRAMS, programs
from bench.placement.scenarios import SCENARIOS, SIZED, scenario
from bench.placement.systems import SYSTEMS, TABLE
from evaluator.core.model.arrays import Floats

_FEWEST = 42
_PICTURED = {"default": "default plugins", "plimsoll-value-w5": "with Plimsoll"}
"""Systems of the picture, with their titles."""
_PICTURED_SCENARIO = "planetlab-50-burst"
_POINTS = 48


def measured(
    traces: tuple[str, ...] = (GENERATED,),
    systems: tuple[str, ...] = TABLE,
    scenarios: tuple[str, ...] = tuple(SCENARIOS),
    seeds: int = 3,
    workers: int = 2,
    engine: str = "model",
    factor: float = 1.0,
    fewer: bool = False,
    output: str = "",
    picture: str = "",
    tas: str = "",
) -> Iterator[Line]:
    """Yield a line per scenario and system. `traces`: files, one a day; `seeds`: of each day, others for each; `output`, `picture`: files.

    `tas`: the program of Telemetry Aware Scheduling, for the real engine.
    """
    _check(systems, scenarios, engine, tas)
    if picture:
        Path(picture).write_text(json.dumps(_use(traces[0])) + "\n")
        return
    place = partial(real.measured, tas=tas) if engine == "real" else None
    lines = _lines(traces, systems, scenarios, seeds, workers, place, factor)
    for one in chain(lines, _fewer(traces, systems, seeds, workers) if fewer else ()):
        if output:
            _add(Path(output), one)
        yield one


def _use(file: str) -> Line:
    """Return the use of each node, in percent, over the day of a file, with the systems of the picture."""
    uses = {
        system: simulate(Run(system, _PICTURED_SCENARIO, file, seed=1)).outcome.use
        for system in _PICTURED
    }
    runs = [
        {"system": system, "title": _PICTURED[system], "use_percent": _percent(use)}
        for system, use in uses.items()
    ]
    return {"scenario": _PICTURED_SCENARIO, "minutes": len(uses["default"]), "runs": runs}


def _percent(use: Floats) -> list[list[int]]:
    """Return the use of each node, shape (minutes, nodes), as means of fewer points in time, in percent."""
    points = np.array([part.mean(axis=0) for part in np.array_split(use, _POINTS)])
    percent: list[list[int]] = np.round(100 * points).astype(int).tolist()
    return percent


def _add(output: Path, one: Line) -> None:
    """Add a line to a JSON array in a file; an earlier line of the same scenario, system and engine is replaced."""
    key = operator.itemgetter("engine", "scenario", "system")
    found = json.loads(output.read_text()) if output.exists() else []
    found = [*(other for other in found if key(other) != key(one)), one]
    output.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")


def _lines(
    traces: Sequence[str],
    systems: Sequence[str],
    scenarios: Sequence[str],
    seeds: int,
    workers: int,
    place: Callable[[Run], Ran] | None,
    factor: float,
) -> Iterator[Line]:
    """Yield a line per scenario and system as soon as its last simulation is done. `place`: runs one in real time."""
    runs = [
        Run(system, name, file, seed, factor)
        for name in scenarios
        for system in systems
        for day, file in enumerate(traces if scenario(name).traced else traces[:1])
        for seed in range(1 + day * seeds, 1 + (day + 1) * seeds)
    ]
    rans = map(place, runs) if place else simulated(runs, workers)
    grouped: dict[tuple[str, str], list[Ran]] = defaultdict(list)
    for ran in rans:
        key = ran.run.scenario, ran.run.system
        grouped[key].append(ran)
        if len(grouped[key]) == seeds * (len(traces) if scenario(key[0]).traced else 1):
            yield line(grouped.pop(key), "real" if place else "model")


def _check(systems: Sequence[str], scenarios: Sequence[str], engine: str, tas: str) -> None:
    """Raise SystemExit for an unknown name."""
    unknown = [*(set(systems) - SYSTEMS.keys() - PROGRAMS), *({engine} - {"model", "real"})]
    for name in scenarios:
        try:
            scenario(name)
        except KeyError:
            unknown.append(name)
    if engine == "model":
        unknown += [name for name in systems if name in PROGRAMS]
    else:
        unknown += [name for name in systems if programs(name, tas) is None]
    if unknown:
        raise SystemExit(f"unknown in the engine {engine!r}: {', '.join(unknown)}")


def _fewer(
    traces: Sequence[str], systems: Sequence[str], seeds: int, workers: int
) -> Iterator[Line]:
    """Yield the least number of nodes of each system, found by bisection."""

    def unmet(system: str, nodes: int) -> float:
        name = f"planetlab-70-steady-on-{nodes}"
        runs = [Run(system, name, file, s) for file in traces for s in range(1, seeds + 1)]
        return float(np.mean([ran.outcome.unmet for ran in simulated(runs, workers)]))

    accepted = unmet("default", SIZED)
    for system in systems:
        least, most = _FEWEST, SIZED
        while least < most:
            nodes = (least + most) // 2
            least, most = (least, nodes) if unmet(system, nodes) <= accepted else (nodes + 1, most)
        yield {
            "benchmark": "placement",
            "engine": "model",
            "scenario": "nodes",
            "system": system,
            "nodes": least,
            "of": SIZED,
            "unmet_percent": round(100 * accepted, 3),
        }


def line(rans: Sequence[Ran], engine: str) -> Line:
    """Return mean and spread (standard deviation) over the simulations of one scenario and system."""
    run, figures = rans[0].run, [ran.outcome.figures for ran in rans]
    values = {name: np.array([one[name] for one in figures]) for name in figures[0]}
    return {
        "benchmark": "placement",
        "engine": engine,
        "factor": run.factor,
        "scenario": run.scenario,
        "system": run.system,
        "days": sorted({ran.run.day for ran in rans}) if scenario(run.scenario).traced else [],
        "runs": len(rans),
        **{name: round(float(found.mean()), 3) for name, found in values.items()},
        "spread": {name: round(float(found.std()), 3) for name, found in values.items()},
        "cpu_s": round(sum(ran.cpu for ran in rans) / len(rans), 2),
    }


if __name__ == "__main__":
    commandline.run(measured)
