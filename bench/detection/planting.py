"""Faults of hardware, planted into the series of `bench/detection`, each with its label."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bench.detection.series import DAY, STEP, Fleet
from evaluator.core.model.arrays import Floats
from lab.replay.faults import Fault

LENGTH = DAY // 2
"""Readings of a fault: half a day, until it is repaired."""
GROUP_CHANGE = 1.5
"""Factor of a change of all nodes of one type at once, such as a new image: no fault. It lasts to the end."""
SHARE = 0.01
"""Share of the nodes that get a fault."""


def _drift(length: int) -> Floats:
    return np.linspace(1.0, 2.0, length)


def _flapping(length: int) -> Floats:
    """Return twice as slow for an hour of each two."""
    hour = int(3600 / STEP)
    return np.where(np.arange(length) // hour % 2 == 0, 2.0, 1.0)


KINDS: Mapping[str, Callable[[int], Floats]] = {
    "x1.3": lambda length: np.full(length, 1.3),
    "x2": lambda length: np.full(length, 2.0),
    "drift": _drift,
    "flapping": _flapping,
    "stuck": lambda length: np.full(length, 3.0),
}
"""How many times as bad the hardware is, by reading. Stuck: in its slowest mode, such as the lowest clock."""


@dataclass(frozen=True)
class Planted:
    """A fleet with faults. `slower`, shape (readings, nodes): how many times as bad the hardware is."""

    fleet: Fleet
    slower: Floats
    by_kind: Mapping[str, list[Fault]]

    @property
    def labels(self) -> list[Fault]:
        """All faults."""
        return [fault for own in self.by_kind.values() for fault in own]

    @property
    def seconds(self) -> float:
        """The length of the series."""
        return len(self.slower) * STEP


def planted(fleet: Fleet, days: int, rng: np.random.Generator) -> Planted:
    """Return a fleet with as many faults of each kind, on different nodes at different times, and a change of a whole type."""
    slower = np.ones(fleet.load.shape)
    change = days * DAY // 2 + int(rng.integers(DAY // 4))
    slower[change:, fleet.types == rng.integers(0, 4)] *= GROUP_CHANGE
    of_each = max(1, round(SHARE * fleet.nodes / len(KINDS)))
    chosen = iter(rng.choice(fleet.nodes, of_each * len(KINDS), replace=False).tolist())
    by_kind: dict[str, list[Fault]] = {}
    for kind, course in KINDS.items():
        for _ in range(of_each):
            node, begin = next(chosen), int(rng.integers(DAY // 4, days * DAY - LENGTH))
            slower[begin : begin + LENGTH, node] *= course(LENGTH)
            fault = Fault(f"node-{node:04}", begin * STEP, (begin + LENGTH) * STEP)
            by_kind.setdefault(kind, []).append(fault)
    return Planted(fleet, slower, by_kind)
