"""Conditions of a policy's status: Valid, MetricsFound, one for each strategy, Enforced, and PeersHeldBack.

Names and fields follow the Kubernetes API conventions:
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evaluator.core.model.events import EventSpec
from evaluator.core.model.node_index import union
from evaluator.core.policy.causes import causes_at
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.policy.problems import AWAITED, METRICS_FOUND, VALID, SimilarTo, metrics_found
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy, Strategy, WhenMissing
from evaluator.core.policy_status import Effects, Episode, PolicyCondition, PolicyPart, listed
from evaluator.core.readings.merged import AGENTS
from evaluator.core.readings.peer_metrics import peer_metric
from evaluator.core.readings.reported import CauseOf, no_cause
from plimsoll.text import counted

WARNINGS = "Warnings"
"""The reason of the condition Valid of a policy with warnings and without problems."""

_MOST_PROBLEMS = 60
_MOST_CHARACTERS = 30_000
"""Limits of problems in a message, by number and by characters; Kubernetes allows 32,768 characters."""
_MOST_CAUSES, _MOST_ASKED = 3, 100
"""Nodes whose devices a message names, among the first that violate a strategy."""
ENFORCED = "Enforced"
"""The condition's type."""


def conditions(
    decision: Decision,
    table: MetricTable,
    problems: Sequence[str],
    warnings: Sequence[str] = (),
    similar_to: SimilarTo = lambda _metric: (),
    cause_of: CauseOf = no_cause,
) -> tuple[PolicyCondition, ...]:
    """Return all conditions of a policy; `problems` are its errors."""
    valid = _valid(decision.policy, problems, [f"warning: {text}" for text in warnings])
    found = metrics_found(decision.policy, decision.not_found, table, similar_to)
    metrics = PolicyCondition(METRICS_FOUND, *found)
    return (valid, *_of_strategies(decision, table, cause_of), metrics)


def _valid(policy: Policy, problems: Sequence[str], warnings: Sequence[str]) -> PolicyCondition:
    if problems:
        return PolicyCondition(VALID, "False", "Problems", _joined([*problems, *warnings]))
    state = "valid" if policy.observed else "in force"
    reason = WARNINGS if warnings else "Understood"
    message = _joined([f"every part of the policy is {state}", *warnings])
    return PolicyCondition(VALID, "True", reason, message)


def _joined(problems: Sequence[str]) -> str:
    lengths = itertools.accumulate(len(problem) + 2 for problem in problems[:_MOST_PROBLEMS])
    shown = sum(length <= _MOST_CHARACTERS for length in lengths)
    more = [f"and {len(problems) - shown} more"] if len(problems) > shown else []
    return "; ".join([*problems[:shown], *more])


def _of_strategies(
    decision: Decision, table: MetricTable, cause_of: CauseOf
) -> Iterator[PolicyCondition]:
    for name, strategy in decision.policy.strategies.items():
        if name.row.ranks:
            status, reason, message = _ranking(decision, table)
        else:
            status, reason, message = _violation(name, strategy, decision, table, cause_of)
        message = "; ".join(
            [message, *absent_phrases(decision, {name: strategy}, len(table.nodes))]
        )
        yield PolicyCondition(name.row.condition, status, reason, message)


def _violation(
    name: StrategyName,
    strategy: Strategy,
    decision: Decision,
    table: MetricTable,
    cause_of: CauseOf,
) -> tuple[str, str, str]:
    state = decision.states[name]
    violated = table.nodes.names_at(state.found.violated)
    if violated:
        by_missing = state.missing_violations
        suffix = f", {by_missing} of them because of missing readings" if by_missing else ""
        reason = "ReadingsMissing" if by_missing == len(violated) else "RulesViolated"
        message = f"violated on {listed(violated, len(table.nodes))}{suffix}"
        return "True", reason, message + _of_devices(name, decision, table, cause_of)
    if not strategy.rules:
        return "False", "NoRules", "it has no rules"
    if strategy.all_of and strategy.impossible:
        return "False", "RuleLeftOut", "one of its rules was left out, so not all can hold"
    if decision.unreported:
        nodes = listed(
            table.nodes.names_at(table.unreported(decision.policy.metrics)), len(table.nodes)
        )
        return "Unknown", AWAITED, f"waiting for the first readings of {nodes}"
    if unknown := missing(decision, strategy):
        return "Unknown", "ReadingsMissing", "; ".join(missing_phrases(unknown, len(table.nodes)))
    return "False", "NotViolated", f"no violation on {counted(len(table.nodes), 'node')}"


def _of_devices(
    name: StrategyName, decision: Decision, table: MetricTable, cause_of: CauseOf
) -> str:
    """Return what the readings of the first violating nodes come from, such as their devices."""
    phrases: list[str] = []
    state = decision.states[name]
    metrics = {rule.metric for rule in state.rules}
    for position in state.found.violated.nonzero()[0][:_MOST_ASKED].tolist():
        # Agents report causes of few nodes: looking at the rules of all of them would take most of a status's time.
        node = table.nodes[position]
        if not any(cause_of(metric, node, AGENTS) for metric in metrics):
            continue
        if causes := causes_at(decision, table, position, cause_of, (name,)):
            phrases.append(f"; {table.nodes[position]}: {'; '.join(causes)}")
        if len(phrases) == _MOST_CAUSES:
            break
    return "".join(phrases)


def _ranking(decision: Decision, table: MetricTable) -> tuple[str, str, str]:
    if decision.ranking is None:
        return "False", "NoRules", "it has no rules"
    metric, ranked = decision.ranking.rule.metric, decision.ranking.count
    if ranked:
        nodes = f"{ranked} of {counted(len(table.nodes), 'node')}"
        return "True", "NodesRanked", f"{nodes} ranked by {metric}"
    return "False", "ReadingsMissing", f"no node has a usable reading of {metric}"


def missing(decision: Decision, *strategies: Strategy) -> Mapping[str, Sequence[str]]:
    """Return the nodes whose missing reading leaves compliance unknown, by metric."""
    metrics = {
        rule.metric
        for strategy in strategies
        for rule in strategy.rules
        if rule.options.when_missing is WhenMissing.IGNORE
    }
    return {metric: nodes for metric, nodes in decision.missing.items() if metric in metrics}


def missing_phrases(unknown: Mapping[str, Sequence[str]], total: int) -> list[str]:
    """Return a phrase for each metric without a usable reading on some nodes."""
    return [
        f"no usable reading of {m} on {listed(nodes, total)}{_or_no_peers(m)}"
        for m, nodes in unknown.items()
    ]


def absent_phrases(
    decision: Decision, strategies: Mapping[StrategyName, Strategy], total: int
) -> list[str]:
    """Return a phrase for each metric that some nodes never had: what strategies make of that."""
    if not decision.absent:
        return []
    rules = [(name, rule) for name, one in strategies.items() for rule in one.rules]
    counts_as = {rule.metric: "not ranked there" for _, rule in rules}
    counts_as |= {r.metric: "no violation there" for name, r in rules if not name.row.ranks}
    strict = [r for _, r in rules if r.options.when_missing is WhenMissing.VIOLATE]
    counts_as |= {rule.metric: "a violation there, by whenMissing" for rule in strict}
    return [
        f"{metric} is absent on {listed(nodes, total)}: {counts_as[metric]}"
        for metric, nodes in decision.absent.items()
        if metric in counts_as
    ]


def _or_no_peers(metric: str) -> str:
    """Return what may be missing beside the reading of a node."""
    peer = peer_metric(metric)
    return f": no reading, or fewer than {peer.least} peers with one" if peer else ""


def enforced(decision: Decision, table: MetricTable, effects: Iterable[Effects]) -> PolicyCondition:
    """Return the condition Enforced: what enforcing the policy would change, or what observing it would undo."""
    policy = decision.policy
    if not policy.observed:
        message = "the policy is enforced"
        if labelled := table.nodes.names_at(assignments_of(decision.labels).labelled):
            nodes = listed(labelled, len(table.nodes))
            message += f"; when it is observed or deleted, its labels are taken off {nodes}"
        return PolicyCondition(ENFORCED, "True", "Enforced", message)
    phrases = [
        effect.phrase
        for part in effects
        for effect in part.effects(decision, table)
        if effect.names
    ]
    would = "; ".join(phrases) or "change nothing now"
    return PolicyCondition(
        ENFORCED, "False", "Observed", f"only observed, by {policy.observed_by}; would {would}"
    )


PEERS_HELD_BACK = "PeersHeldBack"
"""Condition type of a policy with rules on peers."""
_HELD_BACK = Episode(
    PEERS_HELD_BACK,
    EventSpec(
        "Warning",
        PEERS_HELD_BACK,
        "more than a tenth of a group differs from its peers: only the farthest nodes violate the policy; "
        f"the condition {PEERS_HELD_BACK} names the others",
    ),
    EventSpec(
        "Normal", "PeersAccused", "every node that differs from its peers violates the policy"
    ),
)


def peers_held_back(decision: Decision) -> PolicyPart:
    """Return the condition and the Events of a policy with rules on peers; nothing of others."""
    if not decision.policy.peer_metrics:
        return PolicyPart()
    masks = [one for state in decision.states.values() for one in state.held_back.values()]
    if not masks:
        text = "every node that differs from its peers violates the policy"
        condition = PolicyCondition(PEERS_HELD_BACK, "False", "WithinLimit", text)
        return PolicyPart(conditions=(condition,), episodes={_HELD_BACK: False})
    nodes = masks[0].nodes
    names = nodes.names_at(union((one.mask for one in masks), nodes))
    text = f"{listed(names, len(nodes))} differ from their peers and are not accused: more than a tenth of a group does"
    condition = PolicyCondition(PEERS_HELD_BACK, "True", "TooManyDiffer", text)
    return PolicyPart(conditions=(condition,), episodes={_HELD_BACK: True})
