"""Data of the page `/`: each policy with its strategies, the states of the nodes, and the age of its readings."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import structs

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex, union
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.readings.merged import Readings
from evaluator.features.pages.explain import states
from evaluator.features.pages.explain.policy import row
from evaluator.features.pages.kinds import OverviewPolicy, StrategyCounts
from plimsoll.steps import Steps
from plimsoll.text import counted

_NAMED = 3
"""Policies named where some need attention; more are counted."""


def matching(policies: Iterable[PolicyKey], search: str) -> list[PolicyKey]:
    """Return the policies whose namespace/name contains a text."""
    return [key for key in policies if search in str(key)]


def policies(
    decisions: Decisions, keys: Sequence[PolicyKey], readings: Readings, *, now: float
) -> Steps[list[OverviewPolicy]]:
    """Return some policies at `now` (seconds, the store's clock), in steps of one metric or strategy."""
    ages = _Ages(decisions.table.nodes, readings, now)
    rows = []
    for key in keys:
        decision = decisions.policies[key]
        codes = yield from states.states_of(decision, decisions.table)
        strategies = yield from _strategies(decision)
        rows.append(
            OverviewPolicy(
                **structs.asdict(row(key, decision, decisions.table)),
                strategies=strategies,
                states=states.counts(codes),
                strip=states.strip(codes),
                oldest_reading_seconds=(yield from ages.oldest(decision.policy.metrics)),
            )
        )
        yield
    return rows


def attention(
    decisions: Decisions,
    keys: Iterable[PolicyKey],
    problems_of: Callable[[Decision], Sequence[str]],
) -> Steps[list[str]]:
    """Return what needs attention in some policies, as phrases: violations of enforced ones, and problems."""
    nodes = decisions.table.nodes
    violating, total = nodes.none.copy(), 0
    violated, flawed = [], []
    for key in keys:
        decision, total = decisions.policies[key], total + 1
        masks = [
            state.found.violated
            for name, state in decision.states.items()
            if name.row.determines_compliance
        ]
        if not decision.policy.observed and (found := union(masks, nodes)).any():
            violating |= found
            violated.append(key)
        yield
        if problems_of(decision):
            flawed.append(key)
        yield
    phrases = []
    if violated:
        count = int(np.count_nonzero(violating))
        verb = "violates" if count == 1 else "violate"
        of = counted(total, "policy", "policies")
        which = f"{count} of {counted(len(nodes), 'node')} {verb}"
        phrases.append(f"{which} {len(violated)} of {of}{_named(violated)}")
    if flawed:
        of = counted(total, "policy", "policies")
        phrases.append(f"{len(flawed)} of {of} with problems{_named(flawed)}")
    return phrases


def _named(keys: Sequence[PolicyKey]) -> str:
    """Return the names in parentheses, if there are few."""
    return f" ({', '.join(map(str, keys))})" if len(keys) <= _NAMED else ""


def _strategies(decision: Decision) -> Steps[dict[str, StrategyCounts]]:
    """Return for each strategy how many nodes violate it, are pending or clearing, and violate it by a missing reading."""
    by_strategy = {}
    for name, state in decision.states.items():
        violating, pending = int(np.count_nonzero(state.found.violated)), state.pending
        yield
        clearing = state.clearing
        yield
        missing = state.missing_violations
        yield
        by_strategy[name.value] = StrategyCounts(violating, pending, clearing, missing)
    return by_strategy


class _Ages:
    """The age of the oldest usable reading of each metric, read once."""

    def __init__(self, nodes: NodeIndex, readings: Readings, now: float) -> None:
        self._nodes = nodes
        self._readings = readings
        self._now = now
        self._known: dict[str, float | None] = {}

    def oldest(self, metrics: Iterable[str]) -> Steps[float | None]:
        """Return the age of the oldest usable reading of some metrics in seconds; None if there is none."""
        oldest: float | None = None
        for metric in metrics:
            if metric not in self._known:
                self._known[metric] = self._read(metric)
                yield
            if (age := self._known[metric]) is not None:
                oldest = age if oldest is None else max(oldest, age)
        return oldest

    def _read(self, metric: str) -> float | None:
        column = self._readings.column(metric, self._nodes, self._now)
        at = column.at[column.usable]
        return round(self._now - float(at.min()), 3) if at.size else None
