"""Groups of peers and their statistics: median and median absolute deviation, and how many nodes a rule may accuse.

Both are robust: up to half of a group may have any reading without moving the median far, and one node's reading moves it
by one rank at most. The factor 1.4826 makes the median absolute deviation of normally distributed readings their standard
deviation: P. J. Rousseeuw, C. Croux, "Alternatives to the Median Absolute Deviation", JASA 88 (1993), section 1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.model.node_index import NodeIndex, Positions, fixed
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

_LAYOUTS = 4
"""Layouts kept for one grouping: metrics differ in the nodes that have them."""
_SLACK = 1e-9
"""Relative width of the range around a bound in which readings are compared by the definition itself. Its rounding errors
are a few units of 2^-53, below 1e-15."""
_MANY = 1000
"""Readings from which on a median is searched close to the last one: selecting it among all takes several times as long."""
_CLOSE = 1 / 16
"""How close, in median absolute deviations: within one is half of the group, so within this are a few percent."""
_GROUPINGS = 256
"""Groupings kept: one for each label that policies name."""


class _SameSize(NamedTuple):
    """The groups with equally many readings: their numbers, and the positions of their nodes, a row for each group."""

    groups: Positions
    positions: Positions


class Grouping:
    """The group of each node. `codes`, shape (nodes,): an index into `names`, the values of the label, sorted.

    Nodes without the label are a group of their own, with the empty name.
    """

    def __init__(self, names: tuple[str, ...], codes: Codes) -> None:
        self.names = names
        self.codes = fixed(codes)
        self._layouts: dict[bytes, tuple[Codes, tuple[_SameSize, ...]]] = {}

    def layout(self, usable: Bools) -> tuple[Codes, tuple[_SameSize, ...]]:
        """Return the sizes of the groups, counting nodes in `usable`, and the groups by size."""
        known = self._layouts.get(key := usable.tobytes())
        if known is None:
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.pop(next(iter(self._layouts)))
            known = self._layouts[key] = self._laid_out(usable)
        return known

    def _laid_out(self, usable: Bools) -> tuple[Codes, tuple[_SameSize, ...]]:
        positions = usable.nonzero()[0]
        codes = self.codes[positions]
        ordered = positions[codes.argsort(kind="stable")]
        sizes = np.bincount(codes, minlength=len(self.names))
        begins = np.cumsum(sizes) - sizes
        rows = []
        for size in np.unique(sizes[sizes > 0]).tolist():
            groups = (sizes == size).nonzero()[0]
            rows.append(_SameSize(groups, ordered[begins[groups, None] + np.arange(size)]))
        return fixed(sizes), tuple(rows)


class Groups(Protocol):
    """Where the groups of nodes come from."""

    def grouping(self, label: str, nodes: NodeIndex) -> Grouping:
        """Return the groups that a node label makes; the same object while they are the same."""
        ...


class LabelGroups:
    """Groups by the labels of nodes. `labels_of` returns those of a node; by default no node has any."""

    def __init__(self, labels_of: Callable[[str], Mapping[str, str]] | None = None) -> None:
        self._labels_of = labels_of
        self._known: dict[str, tuple[NodeIndex, Grouping]] = {}

    def grouping(self, label: str, nodes: NodeIndex) -> Grouping:
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
    """Of each group: the number of readings, and NaN where there are too few: their median, their median absolute deviation,
    and the scale of deviations.
    """

    sizes: Codes
    medians: Floats
    spreads: Floats
    scales: Floats


def statistics(
    values: Floats, usable: Bools, grouping: Grouping, least: int, before: Statistics | None = None
) -> Statistics:
    """Return the statistics of each group; only values where `usable` is set count, and groups of at least `least`.

    `before`: those of earlier values in the same groups. They make it faster, and do not change the result.
    """
    sizes, same_sizes = grouping.layout(usable)
    medians, spreads = np.full(len(sizes), np.nan), np.full(len(sizes), np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        for groups, positions in same_sizes:
            size = positions.shape[1]
            if size < least:
                continue
            rows = values[None] if size == len(values) else values.take(positions)
            if size < _MANY:
                medians[groups] = middles = _medians(rows)
                spreads[groups] = _medians(np.abs(rows - middles[:, None]))
                continue
            for group, row in zip(groups.tolist(), rows, strict=True):
                near = spread = np.nan
                if before is not None:
                    near, spread = float(before.medians[group]), float(before.spreads[group])
                medians[group] = middle = _median(row, near, spread)
                spreads[group] = _median(np.abs(row - middle), spread, spread)
        scales = np.maximum(SCALE * spreads, FLOOR * np.abs(medians))
    return Statistics(sizes, medians, spreads, scales)


def _medians(rows: Floats) -> Floats:
    """Return the median of each row."""
    size = rows.shape[1]
    half = size // 2
    rows = np.partition(rows, half, axis=1)
    upper = rows[:, half]
    if size % 2:
        return upper
    middle: Floats = (rows[:, :half].max(axis=1) + upper) / 2
    return middle


def _median(row: Floats, near: float, spread: float) -> float:
    """Return the median of a row, searched first among its readings close to `near`; NaN if nothing is known."""
    width = _CLOSE * spread
    below = row < near - width
    close, rank = row[(row <= near + width) ^ below], len(row) // 2
    among = rank - int(np.count_nonzero(below))
    if not 0 < among < len(close):
        close, among = row.copy(), rank
    close.partition(among)
    upper = float(close[among])
    return upper if len(row) % 2 else (float(close[:among].max()) + upper) / 2


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

    def compares(self, readings: Floats, usable: Bools, grouping: Grouping) -> bool:
        """Return whether it compares these readings in these groups."""
        return (
            self.grouping is grouping
            and self.usable.tobytes() == usable.tobytes()
            and self.readings.tobytes() == readings.tobytes()
        )

    @cached_property
    def values(self) -> Floats:
        """The peer metric, shape (nodes,); NaN where there is no reading, or there are too few peers."""
        compared = self.values_at(slice(None))
        if not self.usable.all():
            compared[~self.usable] = np.nan
        return fixed(compared)

    def values_at(self, positions: Positions | slice) -> Floats:
        """Return the peer metric of some nodes, which have a reading; NaN where there are too few peers."""
        codes, readings = self.grouping.codes[positions], self.readings[positions]
        medians, scales = _of_nodes(self.found.medians, codes), self.found.scales
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if self.metric.kind is PeerKind.RATIO:
                return np.where(medians > 0, readings / medians, np.nan)
            compared: Floats = (readings - medians) / _of_nodes(scales, codes)
            if not scales.all():
                compared[readings == medians] = 0.0
            np.maximum(compared, -MOST_DEVIATION, out=compared)
            return np.minimum(compared, MOST_DEVIATION, out=compared)

    @cached_property
    def comparable(self) -> Bools:
        """Where the peer metric is not NaN, shape (nodes,)."""
        sizes, medians, _, scales = self.found
        known = np.isfinite(scales)
        if not known.all() and (np.isinf(medians) | np.isinf(scales)).any():
            return ~np.isnan(self.values)
        if self.metric.kind is PeerKind.RATIO:
            known &= medians > 0
        if known.all() or (known | (sizes == 0)).all():
            return self.usable
        return self.usable & known.take(self.grouping.codes)

    def beyond(self, target: float, sign: float) -> Positions:
        """Return the nodes whose peer metric is above a target, below it if `sign` is negative, equal to it if that is 0.

        In each group the peer metric grows with the reading, so a target is a bound on readings.
        """
        ratio = self.metric.kind is PeerKind.RATIO
        if not sign or not (ratio or abs(target) < MOST_DEVIATION):
            known = self.usable.nonzero()[0]
            return known[self._met(known, target, sign)]
        with np.errstate(invalid="ignore", over="ignore"):
            slack = sign * _SLACK * (abs(target) + 1 + 1 / FLOOR)
            least, enough = self._readings_of(target - slack), self._readings_of(target + slack)
        if not np.isfinite(enough).all():
            unclear = ~np.isfinite(enough) & ~np.isnan(self.found.medians)
            least[unclear], enough[unclear] = -sign * np.inf, np.nan
        limits = _of_nodes(least, self.grouping.codes)
        may = self.readings >= limits if sign > 0 else self.readings <= limits
        may &= self.usable
        near: Positions = may.nonzero()[0]
        readings, limits = self.readings[near], _of_nodes(enough, self.grouping.codes[near])
        sure = readings > limits if sign > 0 else readings < limits
        if not sure.all():
            sure[~sure] = self._met(near[~sure], target, sign)
        return near[sure]

    def _readings_of(self, value: float) -> Floats:
        """Return the reading of each group with a value of the peer metric, but for rounding; NaN where it has none."""
        medians, scales = self.found.medians, self.found.scales
        if self.metric.kind is PeerKind.DEVIATION:
            return medians + value * scales
        return value * np.where(medians > 0, medians, np.nan)

    def _met(self, positions: Positions, target: float, sign: float) -> Bools:
        """Return which of some nodes are beyond a target, by the definition."""
        values = self.values_at(positions)
        met: Bools = values > target
        if sign <= 0:
            met = values < target if sign else values == target
        return met

    @cached_property
    def most(self) -> Codes:
        """The most nodes of each group that a rule may accuse at once, shape (groups,)."""
        most: Codes = np.maximum(1, (MOST_ACCUSED * self.found.sizes).astype(np.intp))
        return most

    def capped(self, where: Bools, first: Bools, sign: float) -> Bools:
        """Return `where` with at most `most` nodes of each group: those of `first`, and then the farthest.

        The reading times `sign` is how far a node is, as the peer metric grows with the reading; nodes without the metric
        come last. Equally far ones are ordered by name.
        """
        most, codes = self.most, self.grouping.codes
        positions = where.nonzero()[0]
        groups = codes[positions]
        over = np.bincount(groups, minlength=len(most)) > most
        if not over.any():
            return where
        positions = positions[over[groups]]
        order = np.lexsort(
            (
                _descending(sign * self.readings[positions]),
                ~self.comparable[positions],
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


def _of_nodes(parts: Floats, codes: Codes) -> Floats:
    """Return the value of each node's group; of a single group, one value for all."""
    return parts if len(parts) == 1 else parts.take(codes)


def _descending(values: Floats) -> Floats:
    """Return keys that sort values from high to low, NaN last."""
    return -np.where(np.isnan(values), -np.inf, values)
