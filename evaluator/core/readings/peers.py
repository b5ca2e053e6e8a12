"""Groups of peers and their statistics: median and median absolute deviation, and how many nodes a rule may accuse.

Both are robust: up to half of a group may have any reading without moving the median far, and one node's reading moves it
by one rank at most. The factor 1.4826 makes the median absolute deviation of normally distributed readings their standard
deviation: P. J. Rousseeuw, C. Croux, "Alternatives to the Median Absolute Deviation", JASA 88 (1993), section 1.
"""

import math
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from evaluator.core.model.node_index import NodeIndex, Positions, fixed
from evaluator.core.readings.column import Bools, Floats
from evaluator.core.readings.peer_metrics import ALL_NODES, PeerKind, PeerMetric
from plimsoll.text import counted

Codes = npt.NDArray[np.intp]

SCALE = 1.4826
FLOOR = 0.02
"""The least scale, as a share of the median: readings of identical machines may all be equal. A deviation of 6 is so at
least 12 % of the median."""
MOST_DEVIATION = 1000.0
"""Larger deviations are cut: where most readings are 0, any other is infinitely far from them."""
MOST_ACCUSED = 0.1
"""Share of a group that violates a rule at once. More nodes that differ are a change of workload rather than faults."""

_MANY = 0.2
"""Share of readings that changed from which on sorting all takes less time than moving each."""
_SLACK = 1e-9
"""Relative width of the range around a bound in which readings are compared by the definition itself. Its rounding errors
are a few units of 2^-53, below 1e-15."""
_NOWHERE = fixed(np.zeros(0, np.intp))
_GROUPINGS = 256
"""Groupings kept: one for each label that policies name."""


class Grouping:
    """The group of each node. `codes`, shape (nodes,): an index into `names`, the values of the label, sorted.

    Nodes without the label are a group of their own, with the empty name.
    """

    def __init__(self, names: tuple[str, ...], codes: Codes) -> None:
        self.names = names
        self.codes = fixed(codes)


class Groups(Protocol):
    """Where the groups of nodes come from."""

    def by(self, label: str, nodes: NodeIndex) -> Grouping:
        """Return the groups that a node label makes; the same object while they are the same."""
        ...


class LabelGroups:
    """Groups by the labels of nodes. `labels_of` returns those of a node; by default no node has any."""

    def __init__(self, labels_of: Callable[[str], Mapping[str, str]] | None = None) -> None:
        self._labels_of = labels_of
        self._known: dict[str, tuple[NodeIndex, Grouping]] = {}

    def by(self, label: str, nodes: NodeIndex) -> Grouping:
        """Return the groups that a node label makes; the same object while they are the same."""
        known = self._known.get(label)
        if known is None or known[0] is not nodes:
            if len(self._known) >= _GROUPINGS:
                self._known.clear()
            known = self._known[label] = (nodes, self._grouping(label, nodes))
        return known[1]

    def _grouping(self, label: str, nodes: NodeIndex) -> Grouping:
        if label == ALL_NODES or self._labels_of is None:
            return Grouping(("",), np.zeros(len(nodes), np.intp))
        values = [self._labels_of(node).get(label, "") for node in nodes]
        names = tuple(sorted(set(values)))
        numbers = {name: number for number, name in enumerate(names)}
        return Grouping(names, np.array([numbers[value] for value in values], np.intp))

    def changed(self, node: str) -> bool:
        """Look at the labels of a node again; return whether its group changed by a label that is used."""
        stale = [label for label, known in self._known.items() if self._differs(label, node, known)]
        for label in stale:
            del self._known[label]
        return bool(stale)

    def _differs(self, label: str, node: str, known: tuple[NodeIndex, Grouping]) -> bool:
        nodes, grouping = known
        position = nodes.position.get(node)
        if position is None or label == ALL_NODES or self._labels_of is None:
            return False
        before = grouping.names[grouping.codes[position]]
        return bool(self._labels_of(node).get(label, "") != before)


class Statistics(NamedTuple):
    """Of each group: the number of readings, their median, the scale of deviations, and the lowest and highest reading.

    All but `sizes` are NaN where there are too few readings.
    """

    sizes: Codes
    medians: Floats
    scales: Floats
    lowest: Floats
    highest: Floats


class SortedGroups:
    """The usable readings of one metric, sorted in each group, and their statistics.

    Usually few readings change from one decision to the next. Each is moved to its new place by bisection, and only the
    statistics of its group are computed again: from sorted readings they take a logarithmic number of steps.
    """

    def __init__(self, grouping: Grouping, least: int) -> None:
        """`least`: the readings that a group needs."""
        nodes, groups = len(grouping.codes), len(grouping.names)
        self.grouping = grouping
        self._least = least
        self._readings = np.full(nodes, np.nan)
        self._usable = np.zeros(nodes, bool)
        self._sorted = [array("d") for _ in range(groups)]
        self._found = Statistics(np.zeros(groups, np.intp), *np.full((4, groups), np.nan))

    def update(self, readings: Floats, usable: Bools) -> Statistics:
        """Return the statistics of these readings; the same object if no usable reading changed.

        Readings count where `usable` is set; none of those is NaN. Both arrays are kept, and must not be changed.
        """
        before, was_usable = self._readings, self._usable
        changed = readings != before
        if not (usable.all() and was_usable.all()):
            changed |= usable != was_usable
            changed &= usable | was_usable
        positions = changed.nonzero()[0]
        self._readings, self._usable = readings, usable
        if not positions.size:
            return self._found
        groups = self.grouping.codes[positions].tolist()
        if positions.size > _MANY * np.count_nonzero(was_usable):
            self._sort()
        else:
            parts = (before, readings, was_usable, usable)
            self._move(groups, *(part[positions].tolist() for part in parts))
        self._found = self._measured(sorted(set(groups)))
        return self._found

    def _sort(self) -> None:
        """Sort all readings."""
        count = len(self.grouping.names)
        codes = np.where(self._usable, self.grouping.codes, count)
        ends = np.bincount(codes, minlength=count + 1).cumsum()
        groups = np.split(self._readings[codes.argsort(kind="stable")], ends[:-1])
        self._sorted = [array("d", np.sort(group).tobytes()) for group in groups[:count]]

    def _move(self, groups: list[int], *changes: Sequence[Any]) -> None:
        """Move readings in their groups. Of each one: before and now the value, and before and now whether it is usable."""
        for group, old, new, was_usable, usable in zip(groups, *changes, strict=True):
            own = self._sorted[group]
            if was_usable:
                del own[bisect_left(own, old)]
            if usable:
                insort(own, new)

    def _measured(self, groups: list[int]) -> Statistics:
        """Return the statistics, with those of some groups computed again."""
        sizes, table = self._found.sizes.copy(), np.array(self._found[1:])
        sizes[groups] = [len(self._sorted[group]) for group in groups]
        medians, mads, lowest, highest = np.array(
            [self._row(self._sorted[group]) for group in groups]
        ).T
        scales = np.maximum(SCALE * mads, FLOOR * np.abs(medians))
        table[:, groups] = medians, scales, lowest, highest
        return Statistics(sizes, *table)

    def _row(self, ordered: Sequence[float]) -> tuple[float, float, float, float]:
        """Return median, median absolute deviation, lowest and highest of sorted readings; NaN if there are too few."""
        if len(ordered) < self._least:
            return np.nan, np.nan, np.nan, np.nan
        return *_median_and_mad(ordered), ordered[0], ordered[-1]


def _median_and_mad(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the median of sorted readings and their median absolute deviation; the latter is NaN if the former is infinite.

    The half of the readings that is nearest to the median lies side by side; where it begins is found by bisection.
    """
    half, odd = divmod(len(ordered), 2)
    median = ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2
    if not math.isfinite(median):
        return median, math.nan
    begin, end = 0, len(ordered) - half - 1
    while begin < end:
        middle = (begin + end) // 2
        if median - ordered[middle] > ordered[middle + half + 1] - median:
            begin = middle + 1
        else:
            end = middle
    left, right = median - ordered[begin], ordered[begin + half] - median
    farthest = max(left, right)
    if odd:
        return median, farthest
    if left > right:
        second = max(median - ordered[begin + 1], right)
    else:
        second = max(left, ordered[begin + half - 1] - median)
    return median, (second + farthest) / 2


@dataclass(frozen=True, eq=False)
class Peers:
    """How the readings of a metric stand among their peers. `readings`: those of the base metric, shape (nodes,).

    A rule needs the peer metric of the few nodes that it may accuse, so it is computed for those, and for all on demand.
    """

    metric: PeerMetric
    grouping: Grouping
    readings: Floats
    usable: Bools
    found: Statistics

    @cached_property
    def values(self) -> Floats:
        """The peer metric, shape (nodes,); NaN where there is no reading, or there are too few peers."""
        compared = self.at(slice(None))
        if not self.usable.all():
            compared[~self.usable] = np.nan
        return fixed(compared)

    def at(self, positions: Positions | slice) -> Floats:
        """Return the peer metric of some nodes, which have a reading; NaN where there are too few peers."""
        codes, readings = self.grouping.codes[positions], self.readings[positions]
        medians, scales = self.found.medians.take(codes), self.found.scales
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if self.metric.kind is PeerKind.RATIO:
                return np.where(medians > 0, readings / medians, np.nan)
            compared: Floats = (readings - medians) / scales.take(codes)
            if (scales == 0).any():
                compared[readings == medians] = 0.0
            return np.clip(compared, -MOST_DEVIATION, MOST_DEVIATION, out=compared)

    @cached_property
    def comparable(self) -> Bools:
        """Where the peer metric is not NaN, shape (nodes,)."""
        sizes, medians, scales = self.found[:3]
        ratio = self.metric.kind is PeerKind.RATIO
        known = (medians > 0) if ratio else ~np.isnan(scales)
        if np.isinf([medians, scales]).any():
            return ~np.isnan(self.values)
        if (known | (sizes == 0)).all():
            return self.usable
        return self.usable & known.take(self.grouping.codes)

    def beyond(self, target: float, sign: float) -> Positions:
        """Return the nodes whose peer metric may be above a target, or below it if `sign` is negative; a few too many.

        In each group the peer metric grows with the reading, so a target is a bound on readings. `sign` 0: all nodes.
        """
        found = self.found
        certain = np.abs(target) < MOST_DEVIATION or self.metric.kind is PeerKind.RATIO
        if not sign or not certain:
            return self.usable.nonzero()[0]
        with np.errstate(invalid="ignore", over="ignore"):
            if self.metric.kind is PeerKind.RATIO:
                bounds, width = target * found.medians, (np.abs(target) + 1) * np.abs(found.medians)
            else:
                bounds = found.medians + target * found.scales
                width = np.abs(found.medians) + (np.abs(target) + 1) * found.scales
            bounds = bounds - sign * _SLACK * width
        bounds[~np.isfinite(bounds) & ~np.isnan(found.medians)] = -sign * np.inf
        farthest = found.highest >= bounds if sign > 0 else found.lowest <= bounds
        if not farthest.any():
            return _NOWHERE
        limits = bounds.take(self.grouping.codes)
        near = self.readings >= limits if sign > 0 else self.readings <= limits
        near &= self.usable
        positions: Positions = near.nonzero()[0]
        return positions

    @cached_property
    def most(self) -> Codes:
        """The most nodes of each group that a rule may accuse at once, shape (groups,)."""
        most: Codes = np.maximum(1, (MOST_ACCUSED * self.found.sizes).astype(np.intp))
        return most

    def capped(self, where: Bools, first: Bools, sign: float) -> Bools:
        """Return `where` with at most `most` nodes of each group: those of `first`, and then the farthest.

        The peer metric times `sign` is how far a node is; NaN comes last. Equal ones are ordered by their readings, and
        then by name.
        """
        most, codes = self.most, self.grouping.codes
        own = codes[where.nonzero()[0]]
        over = np.bincount(own, minlength=len(most)) > most
        if not over.any():
            return where
        positions = (where & over[codes]).nonzero()[0]
        order = np.lexsort(
            (
                positions,
                _descending(sign * self.readings[positions]),
                _descending(sign * self.values[positions]),
                ~first[positions],
                codes[positions],
            )
        )
        groups = codes[positions[order]]
        begins = np.searchsorted(groups, groups)
        late = np.arange(len(groups)) - begins >= most[groups]
        kept = where.copy()
        kept[positions[order[late]]] = False
        return kept

    def lacking(self) -> list[str]:
        """Return, for each group, why its nodes have no peer metric although they have a reading; empty if they do."""
        return [
            self._lacking(*one)
            for one in zip(*(part.tolist() for part in self.found[:2]), strict=True)
        ]

    def _lacking(self, size: int, median: float) -> str:
        if size < self.metric.least:
            has = "has" if size == 1 else "have"
            return f"{counted(size, 'node')} of its group {has} a reading, fewer than {self.metric.least}"
        if self.metric.kind is PeerKind.RATIO and not median > 0:
            return "the median of its group is not above 0, so there is no ratio"
        return ""

    @property
    def alone(self) -> Bools:
        """The nodes with a reading in groups that are too small, shape (nodes,)."""
        small = self.found.sizes < self.metric.least
        found: Bools = self.usable & small[self.grouping.codes]
        return found


def _descending(values: Floats) -> Floats:
    """Return keys that sort values from high to low, NaN last."""
    return -np.where(np.isnan(values), -np.inf, values)
