"""decide(): evaluates all policies against all readings of one moment. Request handlers read the result.

The result is immutable and swapped as a whole: readers need no lock. It holds masks over the nodes; names, texts and
labels by node are computed on first use and cached. Unchanged parts are the same objects as before, so consumers detect
changes by identity.
"""

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex, NodeMask, Reindex
from evaluator.core.policy import durations, labeling, problems
from evaluator.core.policy import ranking as scheduleonmetric
from evaluator.core.policy.durations import PreviousState, StrategyState
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import (
    AppliedLabels,
    LabelAssignment,
    LabelAssignments,
    LabelsOf,
    assignments_of,
    merged,
)
from evaluator.core.policy.ranking import Ranking
from evaluator.core.policy.strategies import COMPLIANCE, StrategyName
from evaluator.core.policy.types import LABEL, VIOLATING, Policy, Rule, comparisons
from evaluator.core.policy.violations import NodesByMetric, ViolationReasons
from evaluator.core.readings.column import Column
from evaluator.core.readings.merged import Readings
from evaluator.core.readings.peer_readings import PeerColumns, PeerReadings
from plimsoll.steps import Steps, finished

NodeLabels = Mapping[str, Mapping[str, str]]
"""Node → label key → value."""

WithoutDeparted = Callable[[Policy, MetricTable], MetricTable]
"""Returns the table on which deschedule is decided: without what pods add that left since the readings."""


def as_read(_policy: Policy, table: MetricTable) -> MetricTable:
    """Return the table as it is: no pod left since the readings."""
    return table


Holds = Callable[[Policy, NodeIndex, float], Mask | None]
"""Returns the nodes that stay in violation of a policy at a time (the store's clock); None if there are none.

Called once per decision for each policy with a strategy that determines compliance.
"""

KEPT = "an internal error: this is the last decision before it, not one on the readings of now; the evaluator's log has the error"
"""The problem of a policy whose decision raised; the text is constant (used in Events)."""
UNDECIDED = "an internal error: the policy is not decided, its pods wait, and what it set on nodes stays; the evaluator's log has the error"
"""The same of a policy without an earlier decision."""

_STEP = 50
"""Decisions taken over in one step."""
_FEW = 500
"""Decisions that are looked at once in one step."""
_NO_NODES: Mapping[str, str] = {}
_NO_VIOLATIONS: Mapping[StrategyName, Mapping[str, str]] = dict.fromkeys(COMPLIANCE, _NO_NODES)


@dataclass(frozen=True, slots=True)
class Decision:
    """The result for one policy.

    `violations`: strategy that determines compliance → violating node → a reason that is constant for a rule.
    `stable_problems`: problems an operator can fix at the metrics source or in the policy; the text is constant (used in
    Events). `not_found`: the metrics that no node has; each is one of `problems`, not of `stable_problems`. `refuses_all`:
    whether it refused every node from its first evaluation on; None before that. `missing`: metric → nodes without a usable
    reading that may have the metric. `absent`: metric → nodes that never had it, although others do. `unreported`: nodes
    that have not reported some metric yet; they get no verdict, and their labels are kept. `states`: each strategy's result and the timers that the next decision
    needs.
    """

    policy: Policy
    violations: Mapping[StrategyName, Mapping[str, str]] = field(
        default_factory=lambda: _NO_VIOLATIONS
    )
    ranking: Ranking | None = None
    labels: NodeLabels = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    stable_problems: tuple[str, ...] = ()
    not_found: tuple[str, ...] = ()
    refuses_all: bool | None = None
    missing: NodesByMetric = field(default_factory=lambda: NodesByMetric({}))
    absent: NodesByMetric = field(default_factory=lambda: NodesByMetric({}))
    unreported: frozenset[str] = frozenset()
    states: Mapping[StrategyName, StrategyState] = field(default_factory=dict, compare=False)
    undecided: bool = False
    """Whether its first decision raised: its pods wait, and what it set on nodes stays."""
    lasts: bool = field(default=False, compare=False)
    """Whether all but the ranking and contested labels stays the same while `Policy.inputs` do."""

    def same_as(self, before: "Decision") -> bool:
        """Return whether all but ranking and labels is as in an earlier decision, as far as identities show."""
        same = self.states is before.states and self.policy.specified_as(before.policy)
        return same and self.violations is before.violations and self.problems is before.problems

    @property
    def dontschedule(self) -> Mapping[str, str]:
        """The nodes that the policy's pods are not scheduled on, with the reason."""
        return self.violations.get(StrategyName.DONTSCHEDULE, _NO_NODES)

    @property
    def deschedule(self) -> Mapping[str, str]:
        """The nodes that the policy's pods should leave, with the reason."""
        return self.violations.get(StrategyName.DESCHEDULE, _NO_NODES)


@dataclass(frozen=True)
class Decisions:
    """The results of all policies. `labels` are those of enforced policies.

    `valid_until` is when a reading becomes stale or a `for` or `clearAfter` ends: then the result changes without new input.
    """

    table: MetricTable = field(default_factory=lambda: MetricTable(NodeIndex(), {}))
    policies: Mapping[PolicyKey, Decision] = field(default_factory=dict)
    labels: NodeLabels = field(default_factory=dict)
    valid_until: float = np.inf
    comparisons: Mapping[str, Sequence[Rule]] = field(default_factory=dict, compare=False)
    """The rules that compare readings of each metric, by metric in the order of evaluation."""
    clashes: Mapping[PolicyKey, Sequence[str]] = field(default_factory=dict, compare=False)
    """The problems of policies whose label another policy sets to another value."""

    def set_enforced(self, keys: Collection[PolicyKey]) -> None:
        """Set `enforced` to the results of these policies, the enforced ones, in the order of all."""
        every = self.policies
        some = {key: every[key] for key in keys} if len(keys) < len(every) else every
        vars(self)["enforced"] = some

    @cached_property
    def enforced(self) -> Mapping[PolicyKey, Decision]:
        """The results of the policies that are not only observed: what kube-scheduler is told, and what is done to nodes and pods."""
        if not any(one.policy.observed for one in self.policies.values()):
            return self.policies
        return {key: one for key, one in self.policies.items() if not one.policy.observed}


def decide(
    policies: Iterable[Policy],
    nodes: Iterable[str],
    store: Readings,
    *,
    now: float,
    before: Decisions | None = None,
    labels_of: LabelsOf = lambda _node: {},
    peers: PeerColumns | None = None,
    without_departed: WithoutDeparted = as_read,
    holds: Holds | None = None,
    guard: Guard = UNGUARDED,
) -> Decisions:
    """Evaluate policies over the nodes of the cluster at `now` (seconds, the store's clock).

    The order of policies, nodes and reports makes no difference. `before` matters for rules with `for` or `clearAfter`,
    and for nodes that have not reported a metric yet (after startup, or when an edit adds a metric): they keep their
    labels. `labels_of` is used for nodes that are not in `before`. `peers` computes peer metrics; by default all nodes are
    peers. `holds`: nodes that stay in violation although no rule matches. `guard` takes what the decision of one policy
    raises: the policy keeps its last one.
    """
    return finished(
        deciding(
            policies,
            nodes,
            store,
            now=now,
            before=before,
            labels_of=labels_of,
            peers=peers,
            without_departed=without_departed,
            holds=holds,
            guard=guard,
        )
    )


def deciding(
    policies: Iterable[Policy],
    nodes: Iterable[str],
    store: Readings,
    *,
    now: float,
    before: Decisions | None = None,
    labels_of: LabelsOf = lambda _node: {},
    peers: PeerColumns | None = None,
    without_departed: WithoutDeparted = as_read,
    holds: Holds | None = None,
    guard: Guard = UNGUARDED,
) -> Steps[Decisions]:
    """`decide()` in small steps, so that the caller can yield to the event loop between them.

    Readings come from a snapshot taken in the first step: reports that arrive later do not change the result. A step
    compares at most one metric with all its targets, or evaluates one rule.
    """
    before = before or Decisions()
    names = nodes if isinstance(nodes, NodeIndex) else NodeIndex(sorted(nodes))
    names = before.table.nodes if before.table.nodes == names else names
    columns: dict[str, Column] = {}
    changed = set[object]()
    with PeerReadings(store, peers or PeerColumns()).snapshot(names) as readings:
        yield
        ordered = yield from _in_order(policies, before)
        derived = yield from _derived(ordered)
        table = MetricTable(names, columns, derived)
        compared = before.comparisons
        known_strategies = [one.policy.strategies for one in before.policies.values()]
        if not _same([policy.strategies for policy in ordered], known_strategies):
            compared = yield from comparisons(ordered)
        yield
        for metric, rules in compared.items():
            compare = partial(_compare, readings, table, columns, metric, rules, before.table, now)
            changed.update(guard.attempt(f"metric {metric}", compare, (metric,)))
            yield
        expiry = readings.next_expiry(now)
    history = _History(before, table, labels_of, holds, changed)
    made: list[Decision] = []
    for number, policy in enumerate(ordered):
        attempt, decision = _Attempt(policy.key, id(policy.strategies)), None
        if not guard.rest(attempt):
            steps = _decided(policy, table, without_departed, history, now=now)
            decision = yield from guard.steps(attempt, steps)
        if decision is None:
            expiry = min(expiry, now + guard.rest(attempt))
            decision = guard.run(attempt.policy, partial(history.kept, policy), None)
        elif not decision.lasts:
            expiry = min(expiry, *(state.due for state in decision.states.values()), np.inf)
        if number % _STEP == 0:
            yield
        made.append(decision or _undecided(policy, names, {}))
    known, labels, clashes = before.enforced, before.labels, before.clashes
    enforced = yield from _enforced(made)
    if (
        before.table.nodes is not names
        or [*known] != [*enforced]
        or not _same([*enforced.values()], [one.labels for one in known.values()])
    ):
        claims = yield from _claims(enforced)
        found, clashes = yield from merged(claims, names)
        yield
        labels = yield from found.reuse(assignments_of(before.labels))
    decided = yield from _with_clashes(made, clashes)
    decisions = Decisions(table, decided, labels, expiry, compared, clashes)
    decisions.set_enforced(enforced)
    yield
    return decisions


def _derived(policies: Iterable[Policy]) -> Steps[frozenset[str]]:
    """Return the metrics of policies that features compute."""
    found = set[str]()
    for number, policy in enumerate(policies):
        if number % _STEP == 0:
            yield
        found |= policy.derived_metrics
    yield
    return frozenset(found)


def _claims(
    enforced: Mapping[PolicyKey, NodeLabels],
) -> Steps[list[tuple[PolicyKey, LabelAssignments]]]:
    """Return the labels that policies assign."""
    found = []
    for number, (key, labels) in enumerate(enforced.items()):
        if number % _FEW == 0:
            yield
        found.append((key, assignments_of(labels)))
    yield
    return found


def _enforced(made: Iterable[Decision]) -> Steps[dict[PolicyKey, NodeLabels]]:
    """Return the labels of the policies that are enforced."""
    found = {}
    for number, decision in enumerate(made):
        if number % _FEW == 0:
            yield
        if not decision.policy.observed:
            found[decision.policy.key] = decision.labels
    yield
    return found


def _with_clashes(
    made: Iterable[Decision], clashes: Mapping[PolicyKey, Sequence[str]]
) -> Steps[dict[PolicyKey, Decision]]:
    """Return the decisions by policy, with the problems of labels that another policy sets to another value."""
    found = {}
    for number, decision in enumerate(made):
        if number % _FEW == 0:
            yield
        lost = clashes.get(decision.policy.key)
        problems = (*decision.problems, *lost) if lost else decision.problems
        found[decision.policy.key] = replace(decision, problems=problems) if lost else decision
    yield
    return found


def _in_order(policies: Iterable[Policy], before: Decisions) -> Steps[Sequence[Policy]]:
    """Return the policies by key, in the order of the previous decisions if they are the same ones: sorting takes longer."""
    by_key = {policy.key: policy for policy in policies}
    yield
    if by_key.keys() == before.policies.keys():
        return [by_key[key] for key in before.policies]
    return [by_key[key] for key in sorted(by_key)]


def _undecided(policy: Policy, nodes: NodeIndex, labels: NodeLabels) -> Decision:
    """Return the decision of a policy without one: its pods wait."""
    return Decision(
        replace(policy, strategies={}),
        labels=labels,
        problems=(*policy.problems, UNDECIDED),
        stable_problems=(UNDECIDED,),
        unreported=frozenset(nodes),
        undecided=True,
    )


class _Attempt(NamedTuple):
    """A policy as it is specified: an edited one is decided at once, also after a failure."""

    policy: PolicyKey
    specification: int

    def __str__(self) -> str:
        return str(self.policy)


def _compare(
    readings: Readings,
    table: MetricTable,
    columns: dict[str, Column],
    metric: str,
    rules: Sequence[Rule],
    before: MetricTable,
    now: float,
) -> Sequence[object]:
    """Add the column of a metric to `columns` and compare it with all targets; return the inputs of policies that differ."""
    columns[metric] = readings.column(metric, table.nodes, now)
    column = table.prepare(metric, before)
    for rule in rules:
        column.matches(rule)
    earlier = before.prepared.get(metric)
    return (metric,) if earlier is None else [*column.changes(earlier)]


def _decided(
    policy: Policy,
    table: MetricTable,
    without_departed: WithoutDeparted,
    history: "_History",
    *,
    now: float,
) -> Steps[Decision]:
    """Return the decision of a policy: the previous one if it lasts."""
    staying, held = without_departed(policy, table), history.held(policy, now)
    if held is None and staying is table:
        lasting = yield from history.lasting(policy)
        if lasting is not None:
            return lasting
    decision = yield from _decision(policy, table, staying, held, history, now=now)
    yield
    return decision


def _same(one: Sequence[object], other: Sequence[object]) -> bool:
    """Return whether these are the same objects."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


class _History:
    """The previous decisions, over the current nodes."""

    def __init__(
        self,
        before: Decisions,
        table: MetricTable,
        labels_of: LabelsOf,
        holds: Holds | None,
        changed: Set[object],
    ) -> None:
        """`changed`: the inputs of policies that differ."""
        self._before = before
        self._table = table
        self._holds = holds
        self._changed = changed
        self._applied = AppliedLabels(table.nodes, labels_of)
        self._unreported_names: dict[bytes, NodeMask] = {}
        self.reindex = Reindex(before.table.nodes, table.nodes)

    def decision_of(self, policy: Policy) -> Decision | None:
        """Return the previous decision for this policy; None if it was another object of that name (other UID)."""
        decision = self._before.policies.get(policy.key)
        return decision if decision and decision.policy.uid == policy.uid else None

    def lasting(self, policy: Policy) -> Steps[Decision | None]:
        """Return the previous decision, with what values alone decide as it is now; None if more may differ."""
        known = self._before.policies.get(policy.key)
        if (
            known is None
            or not known.lasts
            or not known.policy.specified_as(policy)
            or not self.reindex.is_identity
            or policy.key in self._before.clashes
            or not self._changed.isdisjoint(policy.inputs)
        ):
            return None
        labels, earlier = known.labels, assignments_of(known.labels)
        if policy.contested_labels:
            found, _ = yield from labeling.labels(policy, known.states, self._table)
            labels = yield from found.reuse(earlier)
        if labels is known.labels and known.ranking is None and known.policy is policy:
            return known
        return replace(known, policy=policy, ranking=_ranking(policy, self._table), labels=labels)

    def kept(self, policy: Policy) -> Decision:
        """Return the decision of a policy that cannot be decided: its last one over the current nodes, with the problem."""
        known, nodes = self.decision_of(policy), self._table.nodes
        if known is None or known.undecided:
            return self._undecided(policy, known)
        said = KEPT in known.stable_problems
        if said and self.reindex.is_identity and known.policy.observed_by == policy.observed_by:
            return known
        states = {name: one.moved(self.reindex, nodes) for name, one in known.states.items()}
        labels = LabelAssignments(nodes, ()).keeping(
            assignments_of(known.labels), nodes.all, self.reindex
        )
        more = () if said else (KEPT,)
        specified = replace(known.policy, observed_by=policy.observed_by)
        return replace(
            known,
            policy=specified,
            violations=_reasons(specified, nodes, states, known.violations),
            labels=known.labels if self.reindex.is_identity else labels,
            problems=(*known.problems, *more),
            stable_problems=(*known.stable_problems, *more),
            unreported=known.unreported.intersection(nodes),
            states=states,
            lasts=False,
        )

    def _undecided(self, policy: Policy, known: Decision | None) -> Decision:
        """Return the decision of a policy that has none: it keeps the labels that are on nodes."""
        if known and self.reindex.is_identity and known.policy.generation == policy.generation:
            return known
        nodes = self._table.nodes
        own = [(policy.key.name, VIOLATING)]
        own += [(label.key, label.value) for rule in policy.rules for label in rule.labels]
        standing = [
            LabelAssignment(*one, NodeMask(nodes, self._applied.labelled_with(nodes.all, [one])))
            for one in (dict.fromkeys(own) if LABEL in policy.actions.kinds else ())
        ]
        return _undecided(policy, nodes, LabelAssignments(nodes, standing))

    def held(self, policy: Policy, now: float) -> Mask | None:
        """Return the nodes that stay in violation of a policy; None if there are none."""
        if self._holds is None or not any(n.row.determines_compliance for n in policy.strategies):
            return None
        return self._holds(policy, self._applied.nodes, now)

    def previous(self, policy: Policy, name: StrategyName, held: Mask | None) -> PreviousState:
        """Return the previous state of a strategy. `held`: the nodes that stay in violation of the policy."""
        decision = self.decision_of(policy)
        state = decision.states.get(name) if decision else None
        return PreviousState(
            state,
            self.reindex,
            lambda rule, nodes: self._labeled(policy, name, rule, nodes),
            self._held_by(policy, name, state, held),
        )

    def _held_by(
        self, policy: Policy, name: StrategyName, state: StrategyState | None, held: Mask | None
    ) -> Mask:
        """Return the nodes that stay in violation of a strategy: they were, or it is the first decision of this process."""
        nodes = self._applied.nodes
        if held is None or not name.row.determines_compliance:
            return nodes.none
        if state is not None:
            return held & self.reindex.mask(state.found.violated)
        first = next(one for one in COMPLIANCE if one in policy.strategies)
        return held if name is first else nodes.none

    def _labeled(self, policy: Policy, name: StrategyName, rule: Rule, nodes: Mask) -> Mask:
        """Return which of the nodes have our label, or the record of an action, for a violated rule."""
        labels = [(label.key, label.value) for label in rule.labels]
        if name.row.marks:
            labels.append((policy.key.name, VIOLATING))
        for part in policy.actions.parts:
            labels += part.records(policy, name)
        return self._applied.labelled_with(nodes, labels)

    def unreported(self, mask: Mask) -> frozenset[str]:
        """Return the names of the nodes in a mask; cached, as most policies have the same unreported nodes."""
        nodes = self._applied.nodes
        if mask is nodes.none:
            return frozenset()
        known = self._unreported_names.get(key := mask.tobytes())
        if known is None:
            known = self._unreported_names[key] = NodeMask(nodes, mask)
        return known.members


def _decision(
    policy: Policy,
    table: MetricTable,
    staying: MetricTable,
    held: Mask | None,
    history: _History,
    *,
    now: float,
) -> Steps[Decision]:
    """`staying`: the table without pods that left since the readings. `held`: the nodes that stay in violation."""
    states: dict[StrategyName, StrategyState] = {}
    for name, strategy in policy.strategies.items():
        if not name.row.ranks:
            previous = history.previous(policy, name, held)
            read = staying if name is StrategyName.DESCHEDULE else table
            states[name] = yield from durations.advance(strategy, read, previous, now=now)
            yield
    before = history.decision_of(policy) or Decision(
        policy, refuses_all=problems.reported_refusal(policy)
    )
    unreported = table.unreported(policy.metrics)
    columns = [table.column(metric) for metric in sorted(policy.metrics)]
    bases = [table.column(metric) for metric in sorted(policy.base_metrics)]
    yield
    labels, labeled = yield from labeling.labels(policy, states, table)
    known = assignments_of(before.labels)
    labels = yield from labels.keeping(known, unreported, history.reindex).reuse(known)
    earlier = before.refuses_all if before.policy.generation == policy.generation else None
    refuses_all = problems.refuses_all(states, unreported, earlier)
    from_start = (problems.refusal_problem(policy),) if refuses_all else ()
    not_found = problems.not_found(policy, bases)
    return Decision(
        policy,
        _reasons(policy, table.nodes, states, before.violations),
        ranking=_ranking(policy, table),
        labels=labels,
        problems=(*from_start, *problems.problems(policy, bases, labeled, not_found)),
        stable_problems=(*from_start, *problems.stable_problems(policy, bases, labeled)),
        not_found=not_found,
        refuses_all=refuses_all,
        missing=NodesByMetric({column.metric: column.unknown for column in columns}),
        absent=NodesByMetric({one.metric: one.absent for one in columns if one.absent}),
        unreported=history.unreported(unreported),
        states=states,
        lasts=staying is table and all(state.lasts for state in states.values()),
    )


def _reasons(
    policy: Policy,
    nodes: NodeIndex,
    states: Mapping[StrategyName, StrategyState],
    before: Mapping[StrategyName, Mapping[str, str]],
) -> Mapping[StrategyName, Mapping[str, str]]:
    """Return why nodes violate each strategy that determines compliance; equal ones are those of before."""
    return {
        name: ViolationReasons(
            policy.key.name, policy.strategies[name], nodes, states[name].found
        ).reuse(before[name])
        if name in states
        else _NO_NODES
        for name in COMPLIANCE
    }


def _ranking(policy: Policy, table: MetricTable) -> Ranking | None:
    preferred = policy.strategies.get(StrategyName.SCHEDULEONMETRIC)
    if preferred is None or not preferred.rules:
        return None
    return scheduleonmetric.rank(preferred.rules[0], table, policy.rank_by)


class PerPodError(Exception):
    """A decision for one pod failed because of a bug in a feature, which is logged; the message is for the client."""


class NotReadyError(Exception):
    """Decisions cannot be used yet; the text names what is missing."""
