"""Readings beside which rules may name what scorers work out: columns of both kinds, through one Protocol."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from evaluator.model.node_index import Floats, NodeIndex, Reindex
from evaluator.readings.column import NEVER, Bools, Column, unknown
from evaluator.readings.merged import Readings
from evaluator.scoring import derived
from evaluator.scoring.derived import DERIVED_METRICS, NOBODY, DerivedMetricError
from evaluator.scoring.plugin import Scorer
from evaluator.scoring.snapshot import ClusterSnapshot

LOOK = 5.0
"""Seconds between two looks at quantities when nothing else has changed: nobody tells of every pod that came to a node."""
SOON = 0.2
"""The same, while too little is known of the cluster."""

SnapshotSource = Callable[[], ClusterSnapshot | None]
"""The cluster as it is now, the same object while it is the same; None while too little is known of it."""


def nothing() -> ClusterSnapshot | None:
    """The survey of an evaluator without scorers."""
    return None


@dataclass(frozen=True, slots=True)
class Scoring:
    """What quantities are worked out with: scorers by name, and what they look at."""

    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    snapshot: SnapshotSource = nothing


OFF = Scoring()
"""No scorers: all there is of a quantity is what to switch on."""


@dataclass(slots=True)
class _Known:
    """Quantities of one view. `again`: in how many seconds there is to be another look."""

    view: ClusterSnapshot | None = None
    values: dict[str, Floats] = field(default_factory=dict)
    again: float = np.inf


class ScorerMetrics:
    """Readings of sources, and quantities for a pod that asks for nothing.

    A quantity is missing where the scorer cannot tell it, and awaited where the first word on something that the scorer
    takes is. What a scorer takes is as old as it may be before a survey counts it as missing, so that a quantity is always
    of this moment.
    """

    def __init__(
        self, readings: Readings, scoring: Scoring, *, known: "_Known | None" = None
    ) -> None:
        self._readings = readings
        self._scorers = scoring.scorers
        self._snapshot = scoring.snapshot
        self._known = known or _Known()

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """One metric or quantity over some nodes at a time."""
        quantity = DERIVED_METRICS.get(metric)
        if quantity is None:
            return self._readings.column(metric, nodes, now)
        if quantity.scorer not in self._scorers:
            return unknown(len(nodes), unreported=False, fault=_switch_on(quantity.scorer))
        view = self._snapshot()
        self._known.again = LOOK if view is not None else SOON
        if view is None:
            return unknown(len(nodes), unreported=True)
        try:
            values = over(self._now(metric, view), view, nodes)
        except DerivedMetricError as error:
            return unknown(len(nodes), unreported=False, fault=str(error))
        column = unknown(len(nodes), unreported=False)._replace(at=np.full(len(nodes), now))
        unusable = np.isnan(values)
        if unusable.any():
            unreported, heard = self._taken(quantity.scorer, nodes, now)
            at = np.where(unusable, heard, now)
            column = column._replace(unreported=unusable & unreported, at=at)
        return with_values(column, values)

    @contextlib.contextmanager
    def snapshot(self, nodes: Sequence[str]) -> Iterator["ScorerMetrics"]:
        """Readings of one moment, and quantities of one view: that of when the first of them is asked for."""
        with self._readings.snapshot(nodes) as readings:
            scoring = Scoring(self._scorers, cache(self._snapshot))
            yield ScorerMetrics(readings, scoring, known=self._known)

    def _now(self, metric: str, view: ClusterSnapshot) -> Floats:
        """A quantity for no pod; those of one scorer are worked out together, and once for a view."""
        if self._known.view is not view:
            self._known.view, self._known.values = view, {}
        known = self._known.values
        if metric not in known:
            scorer = DERIVED_METRICS[metric].scorer
            alike = [name for name, other in DERIVED_METRICS.items() if other.scorer == scorer]
            known.update(derived.values(alike, self._scorers, view, NOBODY))
        return known[metric]

    def _taken(self, scorer: str, nodes: Sequence[str], now: float) -> tuple[Bools, Floats]:
        """Where a first word on something that a scorer takes is awaited, and when it last came."""
        unreported, heard = np.zeros(len(nodes), dtype=bool), np.full(len(nodes), NEVER)
        for metric in self._scorers[scorer].metrics:
            column = self._readings.column(metric, nodes, now)
            unreported |= column.unreported
            heard = np.maximum(heard, column.at)
        return unreported, heard

    def next_expiry(self, now: float) -> float:
        """When time alone will change a column, or may have done so."""
        return min(self._readings.next_expiry(now), now + self._known.again)

    def resume(self, since: float, now: float) -> None:
        """Nobody has listened for a while."""
        self._readings.resume(since, now)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep just these metrics; quantities are none, and which there are is seen by what is asked for from now on."""
        self._known.again = np.inf
        self._readings.subscribe(derived.measured(frozenset(metrics)))

    def prune(self, nodes: Collection[str], now: float) -> None:
        """These are all nodes there are."""
        self._readings.prune(nodes, now)


def _switch_on(scorer: str) -> str:
    return (
        f"the scorer {scorer} works it out, and is off: start the evaluator with --scorers={scorer}"
    )


def over(values: Floats, view: ClusterSnapshot, nodes: Sequence[str]) -> Floats:
    """Values of a view's nodes over other nodes: NaN for who is not in the view."""
    if view.nodes is nodes or view.nodes == nodes:
        return values
    return Reindex(view.nodes, nodes if isinstance(nodes, NodeIndex) else NodeIndex(nodes)).values(
        values
    )


def with_values(column: Column, values: Floats) -> Column:
    """A column of a quantity with other values."""
    known = ~np.isnan(values)
    return column._replace(values=values, samples=known.astype(np.int32), fresh=known)
