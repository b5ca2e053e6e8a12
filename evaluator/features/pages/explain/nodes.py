"""Data of /explain and of the page `/nodes`: which policies each node violates, the nodes that differ, and one node with every
policy and reading.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import UNSET, structs

from evaluator.core.model.node import Node
from evaluator.core.model.node_index import Mask, NodeIndex, Positions
from evaluator.core.policy.causes import causes_at
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.policy.violations import some_reasons
from evaluator.core.readings.merged import Readings
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.features.pages.explain import states
from evaluator.features.pages.explain.policy import limited
from evaluator.features.pages.explain.states import (
    Codes,
    NodeState,
    Since,
    never,
    running_timers,
    states_of,
    violated_seconds,
)
from evaluator.features.pages.explain.wording import ShownReading, readings_of
from evaluator.features.pages.kinds import ListedNode, NodeOfPage, NodePolicy, RuleOnNode
from plimsoll.steps import Steps

_NAMED = 10
"""Violations, and labels, named for each node in the list; the others are counted."""


class _ByNode:
    """Up to `_NAMED` entries for each node, and how many there are."""

    def __init__(self, size: int) -> None:
        self._counts = np.zeros(size, dtype=np.int64)
        self._named: dict[int, list[tuple[str, str]]] = {}

    def add(self, where: Mask, name: str, value: str) -> None:
        """Add an entry to some nodes."""
        positions = where.nonzero()[0]
        for position in positions[self._counts[positions] < _NAMED].tolist():
            self._named.setdefault(position, []).append((name, value))
        self._counts[positions] += 1

    def entries(self, position: int) -> list[tuple[str, str]]:
        """Return the entries of a node."""
        return self._named.get(position, [])

    def more(self, position: int) -> int:
        """Return how many entries of a node are not named."""
        return int(self._counts[position]) - len(self.entries(position))


def nodes(
    decisions: Decisions, among: Mask | None = None, cause_of: CauseOf = no_cause
) -> Steps[Iterator[tuple[str, ListedNode]]]:
    """Return nodes, evaluated lazily, with the policies that they violate, from which devices, and the labels that they should have.

    `among`, shape (nodes,): which of them; all by default.
    """
    names = decisions.table.nodes
    among = names.all if among is None else among
    violated, labelled = _ByNode(len(names)), _ByNode(len(names))
    for key, decision in decisions.policies.items():
        for strategy, state in decision.states.items():
            if strategy.row.determines_compliance:
                violated.add(state.found.violated & among, str(key), strategy.value)
                yield
    for label, value, where in assignments_of(decisions.labels).assignments:
        labelled.add(where.mask & among, label, value)
        yield
    return _listed(decisions, among, violated, labelled, cause_of)


def _listed(
    decisions: Decisions, among: Mask, violated: _ByNode, labelled: _ByNode, cause_of: CauseOf
) -> Iterator[tuple[str, ListedNode]]:
    names = decisions.table.nodes
    by_name = {str(key): decision for key, decision in decisions.policies.items()}
    for position in among.nonzero()[0].tolist():
        policies: dict[str, list[str]] = {}
        for policy, strategy in violated.entries(position):
            policies.setdefault(policy, []).append(strategy)
        causes = {
            cause: None
            for policy in policies
            for cause in causes_at(by_name[policy], decisions.table, position, cause_of)
        }
        found = ListedNode(
            violates=policies,
            labels=dict(labelled.entries(position)),
            violates_more=violated.more(position) or UNSET,
            labels_more=labelled.more(position) or UNSET,
        )
        if causes:
            found.causes, found.causes_more = limited([*causes], _NAMED)
        yield names[position], found


def node(
    name: str,
    decisions: Decisions,
    readings: Readings,
    *,
    now: float,
    since: Since = never,
    cause_of: CauseOf = no_cause,
) -> Steps[list[tuple[str, NodePolicy]]]:
    """Return each policy with its verdict on one node, at `now` (seconds, the store's clock), in steps."""
    one, position = NodeIndex([name]), decisions.table.nodes.position[name]
    among = np.zeros(len(decisions.table.nodes), dtype=bool)
    among[position] = True
    known: dict[str, ShownReading] = {}
    found = []
    for key, decision in decisions.policies.items():
        for metric in decision.policy.metrics - known.keys():
            (known[metric],) = readings_of(readings.column(metric, one, now))
        yield
        codes = yield from states_of(decision, decisions.table)
        timers = yield from running_timers(decision, np.array([position]), now)
        verdicts = {}
        for strategy, reasons in decision.violations.items():
            verdicts[strategy.value] = some_reasons(reasons, among, decisions.table.nodes).get(name)
            yield
        found.append(
            (
                str(key),
                NodePolicy(
                    state=NodeState(int(codes[position])).word,
                    mode="observe" if decision.policy.observed else "enforce",
                    **verdicts,
                    violated_seconds=violated_seconds(decision, name, since, now),
                    timers=timers.get(position, []),
                    awaited=name in decision.unreported,
                    labels=assignments_of(decision.labels).labels_at(position),
                    rules=list(_rules(decision, position)),
                    readings={
                        metric: known[metric].as_json(
                            now, cause_of(metric, name, known[metric].source)
                        )
                        for metric in sorted(decision.policy.metrics)
                    },
                ),
            )
        )
        yield
    return found


def _rules(decision: Decision, position: int) -> Iterator[RuleOnNode]:
    """Yield the rules of a policy, and whether the node violates each; null where a rule only ranks."""
    for name, strategy in decision.policy.strategies.items():
        state = decision.states.get(name)
        for number, rule in enumerate(strategy.rules):
            yield RuleOnNode(
                strategy=name.value,
                rule=str(rule),
                metric=rule.metric,
                target_value=rule.target if state else None,
                violated=bool(state.found.per_rule[position, number]) if state else None,
            )


def worst(decisions: Decisions) -> Steps[Codes]:
    """Return the worst state of each node over all policies, in steps."""
    codes = np.zeros(len(decisions.table.nodes), np.uint8)
    for decision in decisions.policies.values():
        own = yield from states.states_of(decision, decisions.table)
        np.maximum(codes, own, out=codes)
    return codes


def rows(
    decisions: Decisions,
    codes: Codes,
    shown: Positions,
    cached: Mapping[str, Node],
    cause_of: CauseOf = no_cause,
) -> Steps[list[tuple[str, NodeOfPage]]]:
    """Return the nodes at some positions, in this order."""
    names = decisions.table.nodes
    among = np.zeros(len(names), dtype=bool)
    among[shown] = True
    listed = yield from nodes(decisions, among, cause_of)
    found = {}
    for name, one in listed:
        node = cached.get(name)
        found[name] = NodeOfPage(
            **structs.asdict(one),
            state=NodeState(int(codes[names.position[name]])).word,
            ready=node.ready_status if node else None,
            cordoned=node.spec.unschedulable if node else None,
        )
        yield
    return [(name, found[name]) for name in map(names.__getitem__, shown.tolist())]
