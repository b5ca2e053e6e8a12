"""How many metrics are asked for: what all policies name is bounded, and which are left out depends on the policies alone.

So every replica leaves out the same, also after a restart.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from evaluator.readings import Readings
from evaluator.store import Column, unknown

MOST_METRICS = 1000
"""A reading of one node takes some 40 bytes: 1,000 metrics of 5,000 nodes are 200 MB."""


@dataclass(frozen=True, slots=True)
class Ration:
    """The metrics to ask for, and those that no source is asked for."""

    asked: frozenset[str]
    left_out: frozenset[str] = frozenset()


def ration(
    named: Collection[frozenset[str]], most: int, *, always: frozenset[str] = frozenset()
) -> Ration:
    """Out of what each policy names, so many at most; and `always`, which an operator's flags name and no policy takes away.

    Policies that name fewest go first: one that names thousands has them at its own expense.
    """
    union = always.union(*named)
    most += len(always)
    if len(union) <= most:
        return Ration(union)
    asked = set(always)
    for names in sorted(map(sorted, named), key=lambda names: (len(names), names)):
        new = [name for name in names if name not in asked]
        asked.update(new[: most - len(asked)])
    return Ration(frozenset(asked), union - asked)


class Rationed:
    """Readings of which some metrics were not asked for: these say so, and nobody waits for them."""

    def __init__(self, readings: Readings, left_out: Collection[str], most: int) -> None:
        self._readings = readings
        self._left_out = left_out
        self._fault = f"not asked for: policies name more than --maxMetrics={most}"

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """One metric over some nodes at a time."""
        if metric in self._left_out:
            return unknown(len(nodes), awaited=False, fault=self._fault)
        return self._readings.column(metric, nodes, now)

    def next_expiry(self, now: float) -> float:
        """When time alone will change a column."""
        return self._readings.next_expiry(now)

    def resume(self, since: float, now: float) -> None:
        """Nobody has listened for a while."""
        self._readings.resume(since, now)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep just these metrics."""
        self._readings.subscribe(metrics)

    def prune(self, nodes: Collection[str], now: float) -> None:
        """These are all nodes there are."""
        self._readings.prune(nodes, now)
