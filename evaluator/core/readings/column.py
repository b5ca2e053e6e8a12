"""One metric over a list of nodes, as decisions read it."""

from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from evaluator.core.model.arrays import Bools, Counts, Floats
from evaluator.core.readings.peers import Peers

NEVER = -np.inf
"""The time of a reading that does not exist."""


@overload
def is_fresh(at: float, now: float, stale_after: float) -> bool: ...


@overload
def is_fresh(at: Floats, now: float | Floats, stale_after: float) -> Bools: ...


def is_fresh(at: float | Floats, now: float | Floats, stale_after: float) -> bool | Bools:
    """Return which readings of the times `at` are fresh, so not missing, at `now`: those at most `stale_after` seconds old.

    The only place that decides it. All in seconds of one clock; arrays are broadcast. A time of NEVER is never fresh.
    """
    return at >= now - stale_after


class Reading(NamedTuple):
    """One metric of one node: the number of samples, the value if there is one sample, and the time (seconds, store's clock)."""

    samples: int
    value: float
    at: float


class SourceMask(NamedTuple):
    """The source of each reading of a merged column, shape (nodes,): an index into `names`."""

    names: tuple[str, ...]
    numbers: npt.NDArray[np.int8]


class _Arrays(NamedTuple):
    """The fields of a column; all arrays have shape (nodes,).

    `at`: when it was read (seconds). `fresh`: not stale. `unread`: the source last reported that it cannot read the
    metric. `unreported`: the node has not reported this metric yet, but still may; at startup that is every node.
    `fault`: why the source does not have the metric, as a constant text. `source`: the polled source, empty for agents.
    `peers`: of a peer metric, the groups that the readings are compared with; `measured` are then those of its base.
    `never_had`: where the agent looked for the metric, and the node has not had it since the agent started; None if nowhere.
    """

    measured: Floats
    samples: Counts
    at: Floats
    fresh: Bools
    unread: Bools
    unreported: Bools
    fault: str = ""
    origin: SourceMask | None = None
    source: str = ""
    peers: Peers | None = None
    never_had: Bools | None = None


class Column(_Arrays):
    """One metric over a list of nodes."""

    def source_at(self, position: int) -> str:
        """Return the source of the reading at a position."""
        return (
            self.source if self.origin is None else self.origin.names[self.origin.numbers[position]]
        )

    @property
    def values(self) -> Floats:
        """The values that rules compare; those of a peer metric are computed when they are first read."""
        return self.measured if self.peers is None else self.peers.values

    @cached_property
    def usable(self) -> Bools:
        """Where rules can compare the value: one sample, fresh, not NaN. Rules on the metric and on its peers share it."""
        if self.peers is not None:
            return self.peers.comparable
        usable: Bools = self.fresh & (self.samples == 1) & ~np.isnan(self.measured)
        return usable


def unknown(size: int, *, unreported: bool, unread: bool = False, fault: str = "") -> Column:
    """Return a column without readings for `size` nodes."""
    return Column(
        np.full(size, np.nan),
        np.zeros(size, np.int32),
        np.full(size, NEVER),
        np.zeros(size, bool),
        np.full(size, unread),
        np.full(size, unreported),
        fault,
    )
