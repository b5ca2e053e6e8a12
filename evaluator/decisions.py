"""decide(): every policy against every reading, at one moment, once. Whatever serves a request reads the result.

The result is immutable and swapped whole, so a reader needs no lock and never sees half of it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evaluator import hysteresis, rules
from evaluator.hysteresis import Past, Standing
from evaluator.policy import VIOLATING, Policy, PolicyKey, Rule, StrategyName
from evaluator.readings import Readings
from evaluator.rules import View
from evaluator.strategies import labeling, scheduleonmetric
from evaluator.strategies.scheduleonmetric import Ranking

NodeLabels = Mapping[str, Mapping[str, str]]
"""Node → label key → value."""

LabelsOf = Callable[[str], Mapping[str, str]]
"""The labels of ours that a node bears at this moment."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What one policy asks for.

    `dontschedule` and `deschedule` map each violating node to the reason, worded so that it stays the same while the
    rule does. `missing` holds, per metric, the nodes without a reading that a rule could use. `awaited` are the nodes
    whose first word on some metric is still to come: nothing is said of them until then, and their labels stay.
    `standings` is how each strategy came to its violators, and what the next decision has to know of it.
    """

    policy: Policy
    dontschedule: Mapping[str, str] = field(default_factory=dict)
    deschedule: Mapping[str, str] = field(default_factory=dict)
    ranking: Ranking | None = None
    labels: NodeLabels = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    awaited: frozenset[str] = frozenset()
    standings: Mapping[StrategyName, Standing] = field(default_factory=dict, compare=False)

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

    view: View = field(default_factory=lambda: View((), {}))
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
    ordered = sorted(policies, key=lambda policy: policy.key)
    names = tuple(sorted(nodes))
    metrics = sorted(frozenset().union(*(policy.metrics for policy in ordered)))
    view = View(names, {metric: store.column(metric, names, now) for metric in metrics})
    history = _History(before or Decisions(), names, labels_of)
    made = [_decision(policy, view, history, now=now) for policy in ordered]
    labels, clashes = _merge(made)
    decided = {
        decision.policy.key: replace(
            decision, problems=(*decision.problems, *clashes.get(decision.policy.key, ()))
        )
        for decision in made
    }
    due = [s.due for decision in made for s in decision.standings.values()]
    return Decisions(view, decided, labels, min(store.next_expiry(now), *due, np.inf))


class _History:
    """What was decided before, seen from today's nodes."""

    def __init__(self, before: Decisions, nodes: Sequence[str], labels_of: LabelsOf) -> None:
        self._before = before
        self._labels_of = labels_of
        old = before.view.nodes
        if old == nodes:
            self._positions = np.arange(len(nodes))
        else:
            places = {node: place for place, node in enumerate(old)}
            self._positions = np.array([places.get(node, -1) for node in nodes], dtype=np.intp)

    def of(self, policy: Policy) -> Decision | None:
        """What was decided for this very policy, not for another that had its name."""
        decision = self._before.policies.get(policy.key)
        return decision if decision and decision.policy.uid == policy.uid else None

    def past(self, policy: Policy, name: StrategyName) -> Past:
        """How a strategy of it stood."""
        decision = self.of(policy)
        return Past(
            decision.standings.get(name) if decision else None,
            self._positions,
            lambda rule, node: _marked(policy, name, rule, self._labels_of(node)),
        )


def _marked(policy: Policy, name: StrategyName, rule: Rule, labels: Mapping[str, str]) -> bool:
    """Whether labels of ours show that a rule is violated on a node. No label tells of dontschedule."""
    if name is StrategyName.DESCHEDULE:
        return labels.get(policy.key.name) == VIOLATING
    return any(labels.get(label.key) == label.value for label in rule.labels)


def _decision(policy: Policy, view: View, history: _History, *, now: float) -> Decision:
    standings: dict[StrategyName, Standing] = {
        name: hysteresis.advance(strategy, view, history.past(policy, name), now=now)
        for name, strategy in policy.strategies.items()
        if name is not StrategyName.SCHEDULEONMETRIC
    }

    def reasons(name: StrategyName) -> dict[str, str]:
        if name not in standings:
            return {}
        return rules.reasons(policy.key.name, policy.strategies[name], view, standings[name].found)

    deschedule = reasons(StrategyName.DESCHEDULE)
    labels: dict[str, Mapping[str, str]] = {}
    for node in deschedule:
        labels[node] = {policy.key.name: VIOLATING}
    if (strategy := policy.strategies.get(StrategyName.LABELING)) is not None:
        wanted = labeling.wanted(strategy, view, standings[StrategyName.LABELING].found)
        for node, more in wanted.items():
            labels[node] = {**labels.get(node, {}), **more}
    awaited = _awaited(policy, view)
    if before := history.of(policy):
        labels |= {node: before.labels[node] for node in awaited & before.labels.keys()}
    preferred = policy.strategies.get(StrategyName.SCHEDULEONMETRIC)
    return Decision(
        policy,
        dontschedule=reasons(StrategyName.DONTSCHEDULE),
        deschedule=deschedule,
        ranking=scheduleonmetric.rank(preferred.rules[0], view)
        if preferred and preferred.rules
        else None,
        labels=labels,
        problems=(*policy.problems, *_ambiguous(policy, view), *_without_source(policy, view)),
        missing=_missing(policy, view),
        awaited=awaited,
        standings=standings,
    )


def _awaited(policy: Policy, view: View) -> frozenset[str]:
    waits = np.zeros(len(view.nodes), dtype=bool)
    for metric in policy.metrics:
        waits |= view.columns[metric].awaited
    return frozenset(view.nodes[position] for position in np.flatnonzero(waits).tolist())


def _ambiguous(policy: Policy, view: View) -> list[str]:
    """One sentence for each metric that has several samples on some node: such a reading is no value, and fires no rule."""
    sentences = []
    for metric in sorted(policy.metrics):
        column = view.columns[metric]
        several = np.flatnonzero((column.samples > 1) & column.fresh)
        if several.size:
            worst = int(several[column.samples[several].argmax()])
            sentences.append(
                f"metric {metric} has no single value on {several.size} of {len(view.nodes)} nodes: "
                f"{column.samples[worst]} series on {view.nodes[worst]}; it counts as missing there"
            )
    return sentences


def _without_source(policy: Policy, view: View) -> list[str]:
    """One sentence for each metric that no node has, and of which some source says why it has not got it."""
    return [
        f"no source has metric {metric} ({column.fault})"
        for metric in sorted(policy.metrics)
        if (column := view.columns[metric]).fault
        and not (column.awaited | (column.fresh & (column.samples > 0))).any()
    ]


def _missing(policy: Policy, view: View) -> dict[str, tuple[str, ...]]:
    return {
        metric: tuple(view.nodes[position] for position in np.flatnonzero(~usable).tolist())
        for metric in sorted(policy.metrics)
        if not (usable := view.columns[metric].usable).all()
    }


def _merge(
    made: Sequence[Decision],
) -> tuple[dict[str, dict[str, str]], dict[PolicyKey, list[str]]]:
    """All labels wanted per node, and what each policy has to be told where two of them want different values.

    Policies of one name in two namespaces share label keys. The one whose namespace sorts first wins, so that the result
    does not depend on who came first.
    """
    labels: dict[str, dict[str, str]] = {}
    owners: dict[tuple[str, str], PolicyKey] = {}
    clashes: dict[PolicyKey, list[str]] = {}
    for decision in made:
        key = decision.policy.key
        for node, wanted in decision.labels.items():
            on_node = labels.setdefault(node, {})
            for label, value in wanted.items():
                if on_node.setdefault(label, value) == value:
                    owners.setdefault((node, label), key)
                else:
                    winner = owners[node, label]
                    sentence = f"label {label}: policy {winner} sets another value, and it wins"
                    told = clashes.setdefault(key, [])
                    told.extend([sentence] if sentence not in told else [])
    return labels, clashes
