"""Placement in a closed loop: how hot nodes get with Plimsoll and with other systems, for the same pods.

Prints one JSON line per scenario and system: mean and spread of each figure over days and seeds.

    python -P bench/placement/table.py [--traces DAY.csv.gz,...] [--systems default,plimsoll-value-w5]

Without --traces, pods have generated traces. Traces: one machine a line, 288 percentages of CPU at 5 minutes; gzip or not.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from bench import commandline
from bench.commandline import Line
from bench.placement.model import GENERATED, Ran, Run, simulated
from bench.placement.scenarios import SCENARIOS
from bench.placement.systems import SYSTEMS


def measured(
    traces: tuple[str, ...] = (GENERATED,),
    systems: tuple[str, ...] = tuple(SYSTEMS),
    scenarios: tuple[str, ...] = tuple(SCENARIOS),
    seeds: int = 3,
    workers: int = 2,
) -> Iterator[Line]:
    """Yield a line per scenario and system. `traces`: files, one a day; `seeds`: of each day."""
    if unknown := [*(set(systems) - SYSTEMS.keys()), *(set(scenarios) - SCENARIOS.keys())]:
        raise SystemExit(f"unknown: {', '.join(unknown)}")
    runs = [
        Run(system, scenario, file, seed)
        for scenario in scenarios
        for system in systems
        for file in (traces if SCENARIOS[scenario].traced else (GENERATED,))
        for seed in range(1, seeds + 1)
    ]
    grouped: dict[tuple[str, str], list[Ran]] = defaultdict(list)
    for ran in simulated(runs, workers):
        key = ran.run.scenario, ran.run.system
        grouped[key].append(ran)
        files = len(traces) if SCENARIOS[ran.run.scenario].traced else 1
        if len(grouped[key]) == seeds * files:
            yield line(grouped.pop(key))


def line(rans: Sequence[Ran]) -> Line:
    """Return mean and spread (standard deviation) over the simulations of one scenario and system."""
    run, figures = rans[0].run, [ran.outcome.figures for ran in rans]
    values = {name: np.array([one[name] for one in figures]) for name in figures[0]}
    return {
        "benchmark": "placement",
        "engine": "model",
        "scenario": run.scenario,
        "system": run.system,
        "days": sorted({ran.run.day for ran in rans}) if SCENARIOS[run.scenario].traced else [],
        "runs": len(rans),
        **{name: round(float(found.mean()), 3) for name, found in values.items()},
        "spread": {name: round(float(found.std()), 3) for name, found in values.items()},
        "cpu_s": round(sum(ran.cpu for ran in rans) / len(rans), 2),
    }


if __name__ == "__main__":
    commandline.run(measured)
