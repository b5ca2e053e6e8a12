"""Finds, for metrics that no node has, similar metrics that nodes have."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from evaluator.catalog.catalog import Catalog, near_names, similar
from evaluator.policy.decide import Decisions
from evaluator.readings.merged import Readings
from evaluator.scoring.derived import DERIVED_METRICS

_MOST = 20
"""Metrics for which similar ones are looked up, and `_EACH` for each of them."""
_EACH = 3

MOST_REQUESTED = _MOST * _EACH
"""Metrics that are requested beside those of policies."""


class SimilarMetrics:
    """Candidates come from the catalog and from other policies; those of the catalog are requested from the agents, to see
    which exist.

    `catalog` is None if there are other sources than agents: each request costs them a query.
    """

    def __init__(self, catalog: Callable[[], Catalog] | None) -> None:
        self._catalog = catalog
        self._candidates: dict[str, Sequence[str]] = {}
        self._found: dict[str, Sequence[str]] = {}
        self.requested: frozenset[str] = frozenset()
        """The candidates of the catalog. The next decision must subscribe to them."""

    def to(self, metric: str) -> Sequence[str] | None:
        """Return metrics that nodes have and that are similar to one that no node has; None until that is known."""
        return self._found.get(metric)

    def update(self, decisions: Decisions, readings: Readings, now: float) -> Iterator[bool]:
        """Look for similar metrics in small steps; the last one yields whether anything changed."""
        table = decisions.table
        missing, used = list[str](), list[str]()
        for metric, column in tuple(table.prepared.items()):
            if metric not in DERIVED_METRICS:
                presence = column.presence
                if presence.not_found:
                    missing.append(metric)
                elif presence.having:
                    used.append(metric)
            yield False
        names = near_names(used if missing else ())
        yield False
        candidates, found = dict[str, Sequence[str]](), dict[str, Sequence[str]]()
        for metric in missing[:_MOST]:
            of_catalog = candidates[metric] = self._of_catalog(metric)
            yield False
            both = dict.fromkeys([*similar(metric, names, _EACH), *of_catalog])
            columns = {name: readings.column(name, table.nodes, now) for name in both}
            awaited = any(column.unreported.any() for column in columns.values())
            if self.requested.issuperset(of_catalog) and not awaited:
                has = [name for name, column in columns.items() if np.any(column.samples > 0)]
                found[metric] = tuple(has[:_EACH])
            yield False
        found.update(dict.fromkeys(missing[_MOST:], ()))
        requested = frozenset(name for names in candidates.values() for name in names)
        changed = (requested, found) != (self.requested, self._found)
        self._candidates, self._found, self.requested = candidates, found, requested
        yield changed

    def _of_catalog(self, metric: str) -> Sequence[str]:
        if metric in self._candidates or self._catalog is None:
            return self._candidates.get(metric, ())
        return self._catalog().similar(metric, _EACH)
