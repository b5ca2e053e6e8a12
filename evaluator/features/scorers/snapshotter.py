"""Builds cluster snapshots for scorers from nodes, pods and readings.

Snapshots are immutable and share unchanged parts; if nothing changes, the next one is the same object, so caches compare by
identity. Pods' requests are applied at once, so that a burst of pods does not go to the node that was emptiest before it;
readings are refreshed ten times a second.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import NodeUsage, PodCache
from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.arrays import Floats
from evaluator.core.model.node import Node
from evaluator.core.model.node_index import NodeIndex, Positions, Reindex, fixed
from evaluator.core.model.resources import RESOURCES, USAGE_ANNOTATIONS, USAGE_METRICS
from evaluator.core.readings.merged import Readings
from evaluator.core.signals import NodeCapacityChanged, NodeUsageChanged, Reaction, on_node
from evaluator.features.scorers.plugin import ClusterSnapshot, measured_congestion, measured_usage
from evaluator.features.scorers.rewards import Rewards

PERIOD = 0.1
"""Seconds between two refreshes of the readings."""

Name = TypeVar("Name", bound=str)

_NO_ALLOCATABLE = (np.nan,) * len(RESOURCES)
_NO_FIGURES = (np.nan,) * len(USAGE_ANNOTATIONS)
_NO_USAGE = NodeUsage()
_NOTHING_LEARNED = Rewards()


class Snapshotter:
    """Provides the current ClusterSnapshot. `metrics`: all metrics scorers use; the sources must be subscribed to them."""

    def __init__(
        self,
        cluster: ClusterCache,
        inventory: PodCache,
        readings: Readings,
        *,
        metrics: Collection[str] = USAGE_METRICS,
        rewards: Callable[[], Rewards] = lambda: _NOTHING_LEARNED,
        clock: Callable[[], float] = time.monotonic,
        guard: Guard = UNGUARDED,
    ) -> None:
        """`guard` takes what one node or metric raises: it is then unknown."""
        self._guard = guard
        self._cluster = cluster
        self._inventory = inventory
        self._readings = readings
        self._metrics = sorted(set(metrics))
        self._rewards = rewards
        self._clock = clock
        self._changed: set[str] = set()
        """Nodes with changes, other than of readings, that the snapshot does not have yet."""
        self._read_at = -np.inf
        self._pending = bool(self._metrics)
        """Whether any node's first report is pending; once all nodes have reported, it stays false."""
        self._view = _blank(NodeIndex())

    def reactions(self) -> tuple[Reaction, ...]:
        """Return what makes the snapshot of a node old."""
        return (
            on_node(NodeCapacityChanged, self.node_changed),
            on_node(NodeUsageChanged, self.node_changed),
        )

    def node_changed(self, node: str) -> None:
        """Count a node again."""
        self._changed.add(node)

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before a snapshot may be used."""
        kinds = {"nodes": self._cluster.nodes.synced, "all pods": self._inventory.synced}
        missing = [kind for kind, listed in kinds.items() if not listed]
        if not missing and self._pending:
            self.view()
        return missing or (["the nodes' first readings for scorers"] if self._pending else [])

    def known(self) -> ClusterSnapshot | None:
        """Return the current snapshot, or None while caches are not synced or first reports are missing."""
        return None if self.waiting_for else self.view()

    def view(self) -> ClusterSnapshot:
        """Return the current snapshot; the same object while nothing changes."""
        now = self._clock()
        self._inventory.age()
        nodes = self._cluster.names
        if nodes != self._view.nodes:
            self._changed.update(name for name in nodes if name not in self._view.nodes.position)
            self._view, self._read_at = _measured(_moved(self._view, nodes)), -np.inf
        parts: dict[str, object] = {"nodes": nodes, "rewards": self._rewards()}
        if self._changed:
            parts |= self._counted(nodes.find([n for n in self._changed if n in nodes.position]))
            self._changed.clear()
        if now - self._read_at >= PERIOD:
            self._read_at = now
            parts["readings"] = self._read(nodes, now)
        return self._with(parts)

    def _counted(self, positions: Positions) -> dict[str, object]:
        """Return allocatable, annotations and requests, updated for the nodes at these positions."""
        view, usage = self._view, self._inventory.usage
        names = [view.nodes[position] for position in positions]
        held = [usage.get(name, _NO_USAGE) for name in names]
        unknown: tuple[Sequence[float], Sequence[float]] = _NO_ALLOCATABLE, _NO_FIGURES
        rows = [self._guard.run(name, partial(self._stated, name), unknown) for name in names]
        return {
            "allocatable": _put(view.allocatable, RESOURCES, positions, (row for row, _ in rows)),
            "annotations": _put(
                view.annotations, USAGE_ANNOTATIONS, positions, (row for _, row in rows)
            ),
            "requested": _put(view.requested, RESOURCES, positions, (x.requested for x in held)),
            "recently_bound": _put(
                view.recently_bound, RESOURCES, positions, (x.recently_bound for x in held)
            ),
        }

    def _read(self, nodes: NodeIndex, now: float) -> Mapping[str, Floats]:
        before, unreported = self._view.readings, False
        readings = {}
        none = np.full(len(nodes), np.nan), False
        for metric in self._metrics:
            read = partial(self._values, metric, nodes, now)
            values, missing = self._guard.run(metric, read, none)
            unreported |= missing
            readings[metric] = _kept(before.get(metric), values)
        if self._cluster.nodes.synced:
            self._pending &= unreported
        return before if _same(readings, before) else readings

    def _stated(self, name: str) -> tuple[Sequence[float], Sequence[float]]:
        """Return what a node says of itself: allocatable resources and annotations."""
        node = self._cluster.nodes.objects[name]
        return _allocatable(node), _figures(node)

    def _values(self, metric: str, nodes: NodeIndex, now: float) -> tuple[Floats, bool]:
        """Return the usable readings of a metric, and whether a first report is missing."""
        column = self._readings.column(metric, nodes, now)
        values = np.where(column.usable, column.values, np.nan)
        return values, bool(column.unreported.any())

    def _with(self, parts: Mapping[str, object]) -> ClusterSnapshot:
        """Replace these parts of the snapshot if any differs."""
        before = self._view
        if any(getattr(before, name) is not part for name, part in parts.items()):
            view = replace(before, **parts)  # type: ignore[arg-type]
            measured = ("allocatable", "readings", "annotations")
            if any(getattr(before, name) is not getattr(view, name) for name in measured):
                view = _measured(view)
            self._view = view
        return self._view


def _blank(nodes: NodeIndex) -> ClusterSnapshot:
    """Return a snapshot of nodes without data."""
    nothing = fixed(np.full(len(nodes), np.nan))
    amounts = dict.fromkeys(RESOURCES, nothing)
    return ClusterSnapshot(
        nodes,
        allocatable=amounts,
        requested=amounts,
        recently_bound=amounts,
        annotations=dict.fromkeys(USAGE_ANNOTATIONS, nothing),
    )


def _measured(view: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot with usage and congestion derived from readings and annotations."""
    usage = measured_usage(view.allocatable, view.readings, view.annotations)
    return replace(view, usage=usage, congestion=measured_congestion(view.readings))


def _moved(view: ClusterSnapshot, nodes: NodeIndex) -> ClusterSnapshot:
    """Return the snapshot for another set of nodes, without readings; new nodes have no data."""
    reindex = Reindex(view.nodes, nodes)

    def move(rows: Mapping[Name, Floats]) -> dict[Name, Floats]:
        return {name: fixed(reindex.values(row)) for name, row in rows.items()}

    return ClusterSnapshot(
        nodes,
        allocatable=move(view.allocatable),
        requested=move(view.requested),
        recently_bound=move(view.recently_bound),
        annotations=move(view.annotations),
    )


def _allocatable(node: Node) -> Sequence[float]:
    return node.status.resource_vector or _NO_ALLOCATABLE


def _figures(node: Node) -> Sequence[float]:
    return node.metadata.figures or _NO_FIGURES


def _put(
    before: Mapping[Name, Floats],
    names: Sequence[Name],
    positions: Positions,
    rows: Iterable[Sequence[float]],
) -> Mapping[Name, Floats]:
    """Return the rows with new numbers at these positions; `rows` has one row of numbers per position."""
    if not positions.size:
        return before
    numbers = np.array(list(rows), dtype=np.float64)
    rows_after = {
        name: _with_at(before[name], positions, numbers[:, i]) for i, name in enumerate(names)
    }
    return before if _same(rows_after, before) else rows_after


def _with_at(before: Floats, positions: Positions, values: Floats) -> Floats:
    changed = before.copy()
    changed[positions] = values
    return _kept(before, changed)


def _kept(before: Floats | None, after: Floats) -> Floats:
    """Return the previous row if the values are equal, so that identity means equality."""
    if before is not None and before.tobytes() == after.tobytes():
        return before
    return fixed(after)


def _same(one: Mapping[Name, Floats], other: Mapping[Name, Floats]) -> bool:
    return one.keys() == other.keys() and all(one[name] is other[name] for name in one)
