"""decide(): every policy against every reading, at one moment, once. Whatever serves a request reads the result.

The result is immutable and swapped whole, so a reader needs no lock and never sees half of it. Everything in it is kept
as masks over the nodes; names, words and labels by node are put together when somebody asks, and then kept. What came
out as it was before is the same object as before, so that a reader sees at a glance where there is nothing to do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evaluator.model.names import PolicyKey
from evaluator.model.node_index import Mask, NodeIndex, NodeMask, Reindex, union
from evaluator.model.steps import Steps, finished
from evaluator.policy import durations, labeling
from evaluator.policy import ranking as scheduleonmetric
from evaluator.policy.durations import PreviousState, StrategyState
from evaluator.policy.evaluate import MetricColumn, MetricTable
from evaluator.policy.label_sets import LabelAssignment, LabelAssignments, assignments_of, merged
from evaluator.policy.labeling import Wanted
from evaluator.policy.ranking import Ranking
from evaluator.policy.reductions import Use
from evaluator.policy.types import VIOLATING, Policy, Rule, StrategyName
from evaluator.policy.violations import MissingReadings, ViolationReasons
from evaluator.readings.merged import Readings
from evaluator.readings.store import Column
from evaluator.scoring.derived import DERIVED_METRICS

NodeLabels = Mapping[str, Mapping[str, str]]
"""Node → label key → value."""

LabelsOf = Callable[[str], Mapping[str, str]]
"""The labels of ours that a node bears at this moment."""

_NOBODY: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Decision:
    """What one policy asks for.

    `dontschedule` and `deschedule` map each violating node to the reason, worded so that it stays the same while the
    rule does. `lessons` are those problems whose cause is in the policy or its metrics, in words that do not change with the
    readings. `missing` holds, per metric, the nodes without a reading that a rule could use. `awaited` are the nodes
    whose first word on some metric is still to come: nothing is said of them until then, and their labels stay.
    `standings` is how each strategy came to its violators, and what the next decision has to know of it.
    """

    policy: Policy
    dontschedule: Mapping[str, str] = field(default_factory=dict)
    deschedule: Mapping[str, str] = field(default_factory=dict)
    ranking: Ranking | None = None
    labels: NodeLabels = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    stable_problems: tuple[str, ...] = ()
    missing: MissingReadings = field(default_factory=lambda: MissingReadings({}))
    unreported: frozenset[str] = frozenset()
    states: Mapping[StrategyName, StrategyState] = field(default_factory=dict, compare=False)

    @property
    def violations(self) -> Mapping[StrategyName, Mapping[str, str]]:
        """Violating nodes with the reason, for each strategy that has violators."""
        return {
            StrategyName.DONTSCHEDULE: self.dontschedule,
            StrategyName.DESCHEDULE: self.deschedule,
        }


@dataclass(frozen=True, slots=True)
class Decisions:
    """What all policies ask for. `valid_until` is when time alone will change it.

    That is when some reading will have become too old to rely on, or a rule's `for` or `clearAfter` has run out.
    """

    table: MetricTable = field(default_factory=lambda: MetricTable(NodeIndex(), {}))
    policies: Mapping[PolicyKey, Decision] = field(default_factory=dict)
    labels: NodeLabels = field(default_factory=dict)
    valid_until: float = np.inf


def decide(
    policies: Iterable[Policy],
    nodes: Iterable[str],
    store: Readings,
    *,
    now: float,
    before: Decisions | None = None,
    labels_of: LabelsOf = lambda _node: {},
) -> Decisions:
    """Evaluate policies over the nodes of the cluster at `now` (seconds, the store's clock).

    The order of policies, nodes and reports makes no difference. `before` only matters to rules with a `for` or a
    `clearAfter`, and while first readings are awaited, as after an edit that names another metric: labels of such nodes
    stay what they were. `labels_of` is asked about nodes of which `before` says nothing.
    """
    return finished(deciding(policies, nodes, store, now=now, before=before, labels_of=labels_of))


def deciding(
    policies: Iterable[Policy],
    nodes: Iterable[str],
    store: Readings,
    *,
    now: float,
    before: Decisions | None = None,
    labels_of: LabelsOf = lambda _node: {},
) -> Steps[Decisions]:
    """`decide()` in small steps, for a loop that has others to serve between them.

    The readings are those of a snapshot that is taken in the first step, so that the result is of one moment, whatever
    is reported meanwhile. No step does more than compare one metric with all targets, or evaluate one rule.
    """
    before = before or Decisions()
    ordered = sorted(policies, key=lambda policy: policy.key)
    names = nodes if isinstance(nodes, NodeIndex) else NodeIndex(sorted(nodes))
    names = before.table.nodes if before.table.nodes == names else names
    columns: dict[str, Column] = {}
    table = MetricTable(names, columns)
    with store.snapshot(names) as readings:
        yield
        comparisons = yield from _comparisons(ordered)
        # Quantities first: they are of the moment at which the first of them is asked for.
        for metric in sorted(comparisons, key=lambda name: (name not in DERIVED_METRICS, name)):
            columns[metric] = readings.column(metric, names, now)
            column = table.prepare(metric, before.table)
            for rule in comparisons[metric]:
                column.matches(rule)
            yield
        expiry = readings.next_expiry(now)
    history = _History(before, table, labels_of)
    made = []
    for policy in ordered:
        made.append((yield from _decision(policy, table, history, now=now)))
        yield
    claims = [(decision.policy.key, assignments_of(decision.labels)) for decision in made]
    labels, clashes = yield from merged(claims, names)
    yield
    decided = {
        decision.policy.key: replace(decision, problems=(*decision.problems, *told))
        if (told := clashes.get(decision.policy.key))
        else decision
        for decision in made
    }
    yield
    due = [s.due for decision in made for s in decision.states.values()]
    labels = yield from labels.reuse(assignments_of(before.labels))
    return Decisions(table, decided, labels, min(expiry, *due, np.inf))


def _comparisons(policies: Iterable[Policy]) -> Steps[dict[str, list[Rule]]]:
    """The rules by metric: they are compared while its column is at hand, which is several times as fast."""
    found: dict[str, list[Rule]] = {}
    for policy in policies:
        for name, strategy in policy.strategies.items():
            for rule in strategy.rules:
                asked = found.setdefault(rule.metric, [])
                if name is not StrategyName.SCHEDULEONMETRIC:
                    asked.append(rule)
        yield
    return found


class _History:
    """What was decided before, seen from today's nodes."""

    def __init__(self, before: Decisions, table: MetricTable, labels_of: LabelsOf) -> None:
        self._before = before
        self._worn = _AppliedLabels(table.nodes, labels_of)
        self._awaited: dict[bytes, NodeMask] = {}
        self.moves = Reindex(before.table.nodes, table.nodes)

    def of(self, policy: Policy) -> Decision | None:
        """What was decided for this very policy, not for another that had its name."""
        decision = self._before.policies.get(policy.key)
        return decision if decision and decision.policy.uid == policy.uid else None

    def previous(self, policy: Policy, name: StrategyName) -> PreviousState:
        """How a strategy of it stood."""
        decision = self.of(policy)
        return PreviousState(
            decision.states.get(name) if decision else None,
            self.moves,
            lambda rule, asked: self._marked(policy, name, rule, asked),
        )

    def _marked(self, policy: Policy, name: StrategyName, rule: Rule, asked: Mask) -> Mask:
        """Of which of these nodes labels of ours show that they violate a rule. No label tells of dontschedule."""
        if name is StrategyName.DESCHEDULE:
            return self._worn.by(asked, [(policy.key.name, VIOLATING)])
        return self._worn.by(asked, [(label.key, label.value) for label in rule.labels])

    def unreported(self, mask: Mask) -> frozenset[str]:
        """Names of nodes of which a first word is awaited: for most policies these are the same."""
        nodes = self._worn.nodes
        if mask is nodes.none:
            return frozenset()
        known = self._awaited.get(key := mask.tobytes())
        if known is None:
            known = self._awaited[key] = NodeMask(nodes, mask)
        return known.members


class _AppliedLabels:
    """The labels of ours that nodes bear already. Each node is asked about once, and not before it matters."""

    def __init__(self, nodes: NodeIndex, labels_of: LabelsOf) -> None:
        self.nodes = nodes
        self._labels_of = labels_of
        self._asked = np.zeros(len(nodes), dtype=bool)
        self._where: dict[tuple[str, str], Mask] = {}

    def by(self, asked: Mask, labels: Sequence[tuple[str, str]]) -> Mask:
        """Which of some nodes bear any of some labels."""
        if not labels:
            return self.nodes.none
        for place in (asked & ~self._asked).nonzero()[0].tolist():
            for label in self._labels_of(self.nodes[place]).items():
                if label not in self._where:
                    self._where[label] = np.zeros(len(self.nodes), dtype=bool)
                self._where[label][place] = True
        self._asked |= asked
        return asked & union((self._where.get(x, self.nodes.none) for x in labels), self.nodes)


def _decision(
    policy: Policy, table: MetricTable, history: _History, *, now: float
) -> Steps[Decision]:
    states: dict[StrategyName, StrategyState] = {}
    for name, strategy in policy.strategies.items():
        if name is not StrategyName.SCHEDULEONMETRIC:
            previous = history.previous(policy, name)
            states[name] = yield from durations.advance(strategy, table, previous, now=now)
            yield
    before = history.of(policy) or Decision(policy)
    unreported = table.unreported(policy.metrics)
    columns = [table.column(metric) for metric in sorted(policy.metrics)]
    yield
    labelled = yield from _labeling(policy, states, table)
    labels = _labels(policy, states, labelled, table).keeping(
        assignments_of(before.labels), unreported, history.moves
    )
    labels = yield from labels.reuse(assignments_of(before.labels))
    preferred = policy.strategies.get(StrategyName.SCHEDULEONMETRIC)
    return Decision(
        policy,
        dontschedule=_violation_reasons(policy, StrategyName.DONTSCHEDULE, states, table, before),
        deschedule=_violation_reasons(policy, StrategyName.DESCHEDULE, states, table, before),
        ranking=scheduleonmetric.rank(preferred.rules[0], table)
        if preferred and preferred.rules
        else None,
        labels=labels,
        problems=_problems(policy, columns, labelled),
        stable_problems=_lessons(policy, columns, labelled),
        missing=MissingReadings({column.metric: column.unusable for column in columns}),
        unreported=history.unreported(unreported),
        states=states,
    )


def _problems(policy: Policy, columns: Sequence[MetricColumn], labelled: Wanted) -> tuple[str, ...]:
    ambiguous = [s.ambiguity(_uses(policy, s.metric)) for s in columns if s.ambiguous]
    contradicted = [contradiction.problem for contradiction in labelled.contradictions]
    faults = [column.fault for column in columns if column.fault]
    return (*policy.problems, *ambiguous, *contradicted, *faults)


def _lessons(policy: Policy, columns: Sequence[MetricColumn], labelled: Wanted) -> tuple[str, ...]:
    ambiguous = [s.stable_problem(_uses(policy, s.metric)) for s in columns if s.ambiguous]
    return (
        *ambiguous,
        *(contradiction.stable_problem for contradiction in labelled.contradictions),
    )


def _uses(policy: Policy, metric: str) -> tuple[Use, ...]:
    """How a policy uses a metric."""
    return tuple(
        Use(rule.operator, rule.target, ranks=name is StrategyName.SCHEDULEONMETRIC)
        for name, strategy in policy.strategies.items()
        for rule in strategy.rules
        if rule.metric == metric
    )


def _violation_reasons(
    policy: Policy,
    name: StrategyName,
    states: Mapping[StrategyName, StrategyState],
    table: MetricTable,
    before: Decision,
) -> Mapping[str, str]:
    if name not in states:
        return _NOBODY
    strategy, found = policy.strategies[name], states[name].found
    reasons_of = ViolationReasons(policy.key.name, strategy, table.nodes, found)
    return reasons_of.reuse(before.violations[name])


def _labeling(
    policy: Policy, states: Mapping[StrategyName, StrategyState], table: MetricTable
) -> Steps[Wanted]:
    if (state := states.get(StrategyName.LABELING)) is None:
        return Wanted()
    strategy = policy.strategies[StrategyName.LABELING]
    return (yield from labeling.wanted(strategy, table, state.found))


def _labels(
    policy: Policy,
    states: Mapping[StrategyName, StrategyState],
    labelled: Wanted,
    table: MetricTable,
) -> LabelAssignments:
    marks = []
    if (state := states.get(StrategyName.DESCHEDULE)) is not None:
        marks.append(
            LabelAssignment(policy.key.name, VIOLATING, NodeMask(table.nodes, state.found.violated))
        )
    return LabelAssignments(table.nodes, (*marks, *labelled.assignments))


class NotReadyError(Exception):
    """There is nothing to decide on yet; the text says what is being waited for."""
