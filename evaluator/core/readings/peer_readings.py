"""Adds peer metrics to readings, as columns of the same interface. They are computed only where their base changed."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.readings.column import Bools, Column, Floats
from evaluator.core.readings.merged import Readings
from evaluator.core.readings.peer_metrics import PeerMetric, peer_metric
from evaluator.core.readings.peers import Grouping, Groups, LabelGroups, Peers, statistics


@dataclass(frozen=True, slots=True)
class _Computed:
    """A column that was computed, and what it was computed from."""

    readings: Floats
    usable: Bools
    values: Floats
    peers: Peers


class PeerColumns:
    """Computes columns of peer metrics, and keeps the last one of each. By default all nodes are one group."""

    def __init__(self, groups: Groups | None = None) -> None:
        self._groups = groups or LabelGroups()
        self._computed: dict[PeerMetric, _Computed] = {}

    def derive(self, metric: PeerMetric, base: Column, nodes: NodeIndex) -> Column:
        """Return the column of a peer metric over all nodes, from that of its base."""
        grouping = self._groups.by(metric.label, nodes)
        known = self._computed.get(metric)
        usable = base.usable
        if known is None or not _equal(known, base.values, usable, grouping):
            peers = self._peers(metric, base.values, usable, grouping)
            known = _Computed(base.values, usable, peers.values(), peers)
            self._computed[metric] = known
        return base._replace(values=known.values, peers=known.peers)

    def _peers(
        self, metric: PeerMetric, values: Floats, usable: Bools, grouping: Grouping
    ) -> Peers:
        """Return the statistics, computed once for the metrics of one base and grouping."""
        for kind in type(metric.kind):
            other = self._computed.get(metric._replace(kind=kind))
            if other is not None and _equal(other, values, usable, grouping):
                return Peers(metric, grouping, other.readings, other.usable, other.peers.found)
        found = statistics(values, usable, grouping, metric.least)
        return Peers(metric, grouping, values, usable, found)

    def keep(self, metrics: Collection[str]) -> None:
        """Drop columns whose base is not among these metrics."""
        for metric in [one for one in self._computed if one.base not in metrics]:
            del self._computed[metric]


def _equal(known: _Computed, values: Floats, usable: Bools, grouping: Grouping) -> bool:
    return (
        known.peers.grouping is grouping
        and known.usable.tobytes() == usable.tobytes()
        and known.readings.tobytes() == values.tobytes()
    )


class PeerReadings:
    """Readings, and peer metrics computed from them. Reading peer metrics needs a snapshot, which fixes all nodes."""

    def __init__(
        self, readings: Readings, columns: PeerColumns, nodes: NodeIndex | None = None
    ) -> None:
        """`nodes`: all nodes, which a node's peers are among."""
        self._readings = readings
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

    def next_expiry(self, now: float) -> float:
        """Return when a column changes without new input (seconds)."""
        return self._readings.next_expiry(now)

    def resume(self, since: float, now: float) -> None:
        """Record that no reports were received from `since` to `now`."""
        self._readings.resume(since, now)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics, which sources provide."""
        self._readings.subscribe(metrics)

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Drop nodes other than these."""
        self._readings.prune(nodes, now)


def _some(column: Column, every: NodeIndex, nodes: Sequence[str]) -> Column:
    """Return a column over some of all nodes; unknown ones have no reading."""
    positions = every.find(nodes)
    known = positions >= 0
    origin, peers = column.origin, column.peers
    assert peers is not None
    grouping = Grouping(peers.grouping.names, peers.grouping.codes[positions])
    return column._replace(
        values=np.where(known, column.values[positions], np.nan),
        samples=np.where(known, column.samples[positions], 0),
        at=np.where(known, column.at[positions], -np.inf),
        fresh=known & column.fresh[positions],
        unread=known & column.unread[positions],
        unreported=known & column.unreported[positions],
        origin=origin and origin._replace(numbers=origin.numbers[positions]),
        peers=replace(
            peers,
            grouping=grouping,
            readings=peers.readings[positions],
            usable=known & peers.usable[positions],
        ),
    )
