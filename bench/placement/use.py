"""The use of each node over time with two systems, as one JSON object: the data of the picture in README.md.

python -P bench/placement/use.py --traces DAY.csv.gz > bench/results/placement-use.json
"""

from collections.abc import Iterator

import numpy as np

from bench import commandline
from bench.commandline import Line
from bench.placement.model import GENERATED, Run, simulate

_POINTS = 48


def measured(
    traces: str = GENERATED,
    scenario: str = "planetlab-50-burst",
    system: str = "plimsoll-value-w5",
    title: str = "with Plimsoll",
    seed: int = 1,
) -> Iterator[Line]:
    """Yield the use of each node, in percent, with the default plugins and with a system."""
    runs = []
    for name, shown in (("default", "default plugins"), (system, title)):
        ran = simulate(Run(name, scenario, traces, seed))
        parts = np.array_split(ran.outcome.use, _POINTS)
        use = np.round(100 * np.array([part.mean(axis=0) for part in parts]))
        runs.append({"system": name, "title": shown, "use_percent": use.astype(int).tolist()})
    minutes = len(ran.outcome.use)
    yield {"benchmark": "placement", "scenario": scenario, "minutes": minutes, "runs": runs}


if __name__ == "__main__":
    commandline.run(measured)
