"""Adds peer metrics to readings, as columns of the same interface. They are computed only where their base changed."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.readings.column import Column
from evaluator.core.readings.merged import Readings, ReadingsView
from evaluator.core.readings.peer_metrics import PeerKind, PeerMetric, peer_metric
from evaluator.core.readings.peers import Grouping, Groups, LabelGroups, Peers, statistics


class _Base(NamedTuple):
    """What the peer metrics of one base, label and least size have in common."""

    metric: str
    label: str
    least: int


class PeerColumns:
    """Computes columns of peer metrics, and keeps the last ones. By default all nodes are one group."""

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups or LabelGroups()
        self._last: dict[_Base, dict[PeerKind, Peers]] = {}

    def derive(self, metric: PeerMetric, base: Column, nodes: NodeIndex) -> Column:
        """Return the column of a peer metric over all nodes, from that of its base."""
        grouping, usable = self._groups.grouping(metric.label, nodes), base.usable
        key = _Base(metric.base, metric.label, metric.least)
        last = self._last.get(key, {})
        known = next(iter(last.values()), None)
        if known is None or not known.compares(base.values, usable, grouping):
            before = known.found if known and known.grouping is grouping else None
            found = statistics(base.values, usable, grouping, metric.least, before)
            known = Peers(metric, grouping, base.values, usable, found)
            last = self._last[key] = {metric.kind: known}
        peers = last.get(metric.kind)
        if peers is None:
            peers = last[metric.kind] = replace(known, metric=metric)
        return base._replace(peers=peers)

    def keep(self, metrics: Collection[str]) -> None:
        """Drop what belongs to bases that are not among these metrics."""
        self._last = {key: last for key, last in self._last.items() if key.metric in metrics}


class PeerReadings(ReadingsView):
    """Readings, and peer metrics computed from them. Reading peer metrics needs a snapshot, which fixes all nodes."""

    def __init__(
        self, readings: Readings, columns: PeerColumns, nodes: NodeIndex | None = None
    ) -> None:
        """`nodes`: all nodes, which a node's peers are among."""
        super().__init__(readings)
        self._columns = columns
        self._nodes = NodeIndex() if nodes is None else nodes
        self._bases: dict[str, Column] = {}

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes at `now`; a peer metric compares them with all nodes of their groups."""
        peer = peer_metric(metric)
        if peer is None:
            column = self._readings.column(metric, nodes, now)
            if nodes is self._nodes:
                self._bases[metric] = column
            return column
        base = self._bases.get(peer.base)
        if base is None:
            base = self.column(peer.base, self._nodes, now)
        found = self._columns.derive(peer, base, self._nodes)
        return found if nodes is self._nodes else _some(found, self._nodes, nodes)

    @contextlib.contextmanager
    def snapshot(self, nodes: Sequence[str]) -> Iterator["PeerReadings"]:
        """Yield the readings of one moment; `nodes` are all nodes."""
        every = nodes if isinstance(nodes, NodeIndex) else NodeIndex(nodes)
        with self._readings.snapshot(every) as readings:
            yield PeerReadings(readings, self._columns, every)


def _some(column: Column, every: NodeIndex, nodes: Sequence[str]) -> Column:
    """Return a column over some of all nodes; unknown ones have no reading."""
    positions = every.find(nodes)
    known = positions >= 0
    origin, peers = column.origin, column.peers
    assert peers is not None
    grouping = Grouping(peers.grouping.names, peers.grouping.codes[positions])
    return column._replace(
        measured=np.where(known, column.measured[positions], np.nan),
        samples=np.where(known, column.samples[positions], 0),
        at=np.where(known, column.at[positions], -np.inf),
        fresh=known & column.fresh[positions],
        unread=known & column.unread[positions],
        unreported=known & column.unreported[positions],
        never_had=None if column.never_had is None else known & column.never_had[positions],
        origin=origin and origin._replace(numbers=origin.numbers[positions]),
        peers=replace(
            peers,
            grouping=grouping,
            readings=peers.readings[positions],
            usable=known & peers.usable[positions],
        ),
    )
