"""Conditions of nodes as readings: `node_condition_<Type>` is 1 if the condition is True and 0 if it is False.

The node watch delivers them, so they are as fresh as the watch. The time of a reading is when the reporter last wrote
the condition. Unknown and absent conditions are missing.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from evaluator.core.model.node import NodeCondition
from evaluator.core.readings.column import NEVER, Column, SourceMask, unknown
from evaluator.core.readings.merged import Readings, ReadingsView
from plimsoll import rfc3339

PREFIX = "node_condition_"
SOURCE = "node-conditions"
"""The source, as `/explain` names it."""

_VALUES = {"True": 1.0, "False": 0.0}
_NOT_IN_METRICS = re.compile(r"[^a-zA-Z0-9_]", re.ASCII)


class _Entry(NamedTuple):
    """One condition of one node: the number of conditions with this metric name, the value, and when it was written."""

    samples: int
    value: float
    at: float


_ABSENT = _Entry(0, np.nan, NEVER)


def metric_of(condition_type: str) -> str:
    """Return the metric of a condition type; other characters than letters, digits and `_` become `_`."""
    return PREFIX + _NOT_IN_METRICS.sub("_", condition_type)


def reported(metrics: frozenset[str]) -> frozenset[str]:
    """Return `metrics` without those of conditions, which no other source provides."""
    return frozenset(name for name in metrics if not name.startswith(PREFIX))


class NodeConditions:
    """The conditions of all nodes by metric. `epoch` is the Unix time at 0 of the store's clock."""

    def __init__(self, *, epoch: float) -> None:
        self._epoch = epoch
        self._entries: defaultdict[str, dict[str, _Entry]] = defaultdict(dict)
        self._metrics_of: dict[str, frozenset[str]] = {}
        self._columns: dict[str, tuple[Sequence[str], Column]] = {}
        self.subscribed: frozenset[str] = frozenset()
        """The metrics that policies use."""

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics of all conditions that some node has."""
        return frozenset(metric for metric, nodes in self._entries.items() if nodes)

    def names(self) -> frozenset[str]:
        """Return the metrics of all conditions that some node has."""
        return self.metrics

    def changed(self, node: str, conditions: Iterable[NodeCondition], now: float) -> bool:
        """Replace the conditions of a node at `now` (Unix seconds); returns whether the value of a subscribed metric changed."""
        found = self._found(conditions, now)
        differs = False
        for metric in self._metrics_of.get(node, frozenset()) | found.keys():
            before, after = self._entries[metric].get(node), found.get(metric)
            if before == after:
                continue
            self._columns.pop(metric, None)
            same_value = (before or _ABSENT)[:2] == (after or _ABSENT)[:2]
            differs |= metric in self.subscribed and not same_value
            if after is None:
                del self._entries[metric][node]
            else:
                self._entries[metric][node] = after
        if found:
            self._metrics_of[node] = frozenset(found)
        else:
            self._metrics_of.pop(node, None)
        return differs

    def _found(self, conditions: Iterable[NodeCondition], now: float) -> dict[str, _Entry]:
        found: dict[str, _Entry] = {}
        for condition in conditions:
            metric, value = metric_of(condition.type), _VALUES.get(condition.status)
            if value is None:
                continue
            since = rfc3339.bounded(condition.at, now)
            at = NEVER if since is None else since - self._epoch
            before = found.get(metric)
            found[metric] = (
                _Entry(1, value, at)
                if before is None
                else _Entry(before.samples + 1, np.nan, max(before.at, at))
            )
        return found

    def column(self, metric: str, nodes: Sequence[str]) -> Column:
        """Return one metric over some nodes; read-only."""
        known = self._columns.get(metric)
        if known is not None and known[0] is nodes:
            return known[1]
        by_node = self._entries.get(metric, {})
        entries = [by_node.get(node, _ABSENT) for node in nodes]
        samples, values, at = zip(*entries, strict=True) if entries else ((), (), ())
        column = unknown(len(nodes), unreported=False)._replace(
            measured=np.array(values, np.float64),
            samples=np.array(samples, np.int32),
            at=np.array(at, np.float64),
            fresh=np.ones(len(nodes), bool),
            origin=SourceMask((SOURCE,), np.zeros(len(nodes), np.int8)),
        )
        self._columns[metric] = (nodes, column)
        return column


class WithNodeConditions(ReadingsView):
    """Readings of sources, and node conditions as further metrics."""

    def __init__(self, readings: Readings, conditions: NodeConditions) -> None:
        super().__init__(readings)
        self._conditions = conditions

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes at `now`."""
        if metric.startswith(PREFIX):
            return self._conditions.column(metric, nodes)
        return self._readings.column(metric, nodes, now)

    def _over(self, readings: Readings) -> Readings:
        return WithNodeConditions(readings, self._conditions)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics."""
        names = frozenset(metrics)
        others = reported(names)
        self._conditions.subscribed = names - others
        self._readings.subscribe(others)
