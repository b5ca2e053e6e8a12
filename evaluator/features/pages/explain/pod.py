"""Data of /explain for a pod: its policy, what refuses it on each node, and why it waits."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import UNSET

from evaluator.core.cache import policy_pods
from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.model.feasibility import obstacles
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import Pod
from evaluator.core.page_fields import Maybe
from evaluator.core.pages.window import ShownWindow, Window
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Rule, formatted
from evaluator.core.policy.violations import some_reasons, violators
from evaluator.core.readings.merged import Readings
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.features.pages.explain.pod_summary import CheckedNodes, PodContext, attempt, summary
from evaluator.features.pages.explain.policy import MOST_READINGS
from evaluator.features.pages.explain.wording import ShownReading, readings_of
from evaluator.features.pages.kinds import NodeCounts, PodNode, PodPage, PodPolicy, PodRule, Reading
from plimsoll.steps import Steps


class PodExplanation(NamedTuple):
    """One pod: `head` for the cluster, and `nodes`, evaluated lazily because there may be thousands."""

    head: PodPage
    nodes: Iterator[tuple[str, PodNode]]


DEFAULT_SCHEDULER = "default-scheduler"
_BLOCK = 50
"""Nodes checked in one step: well below a millisecond."""


def explain_pod(
    pod: Pod,
    context: PodContext,
    readings: Readings,
    *,
    now: float,
    window: Window | None = None,
    cause_of: CauseOf = no_cause,
) -> Steps[PodExplanation]:
    """Return the explanation of a pod at `now` (seconds, the store's clock), in steps.

    Nodes that the policy refuses come first, then those that are left; `window`: which of them are shown. By default at
    most `MOST_READINGS` readings are shown.
    """
    policy, acts = _policy(pod, context)
    decision = context.decision if policy and policy.applies else None
    checked = yield from _checked(pod, context, decision if acts else None)
    rules = _rules(decision)
    shown, more, extent = _shown(checked, window, len(rules))
    yield
    columns: dict[str, Iterator[ShownReading]] = {}
    for metric, visible in sorted(
        {rule.metric: rule.shown or rule.metric for rule in rules}.items()
    ):
        columns[metric] = readings_of(readings.column(visible, shown, now))
        yield
    reasons = yield from _reasons(decision, context.decisions.table.nodes, shown)
    turned_away, why = summary(pod, context, policy, checked)
    failed = attempt(pod)
    head = PodPage(
        waiting_for=list(context.waiting_for),
        pod=str(pod),
        summary=why,
        turned_away_by_plimsoll=turned_away,
        node=pod.spec.node_name or None,
        nominated_node=pod.nominated_node or UNSET,
        phase=pod.status.phase,
        policy=policy,
        gates=[gate.name for gate in pod.spec.scheduling_gates or ()],
        scheduler=pod.spec.scheduler_name,
        scheduler_reason=failed.reason,
        scheduler_message=failed.message,
        requests_decide=failed.requests_decide or UNSET,
        node_counts=NodeCounts(
            total=len(context.decisions.table.nodes),
            not_feasible=len(checked.obstacles),
            refused_by_policy=len(checked.refused),
            awaiting_readings=len(checked.unreported),
            refused_by_scorers=len(checked.by_scorers),
            left=len(checked.left),
        ),
        nodes_more=more,
        window=extent,
    )
    rows = _nodes(context, decision, checked, reasons, acts, shown, columns, now, cause_of)
    return PodExplanation(head, rows)


def _shown(
    checked: CheckedNodes, window: Window | None, rules: int
) -> tuple[Sequence[str], Maybe[int], Maybe[ShownWindow]]:
    """Return the nodes to show, and how many more there are, or the window over them."""
    groups: dict[str, Sequence[str]] = {
        "refusedByPolicy": checked.refused,
        "awaitingReadings": checked.unreported,
        "refusedByScorers": checked.by_scorers,
        "left": checked.left,
        "notFeasible": list(checked.obstacles),
    }
    order = [name for group in groups.values() for name in group]
    if window is None:
        most = max(1, MOST_READINGS // max(1, rules))
        return order[:most], max(0, len(order) - most) or UNSET, UNSET
    chosen = [name for name in groups.get(window.state, order) if window.search in name]
    return window.shown(chosen), UNSET, window.described(len(chosen), len(order))


def _policy(pod: Pod, context: PodContext) -> tuple[PodPolicy | None, bool]:
    """Return the pod's policy, and whether it acts on where the pod is placed."""
    key = policy_of(pod)
    if key is None:
        return None, False
    policies = {name: decision.policy for name, decision in context.decisions.policies.items()}
    namespaces = {name.namespace for name in policies if name.name == key.name}
    requests = pod.spec.requests_extender
    why = policy_pods.why_not_applied(key, policies, namespaces, requests=requests)
    found = PodPolicy(name=str(key), applies=why is None)
    if (policy := policies.get(key)) is not None:
        found.mode = "observe" if policy.observed else "enforce"
        found.problems = list(context.decisions.policies[key].problems)
        found.warnings = list(policy.warnings)
    if why is not None:
        names = [name.name for name in policies if name.namespace == key.namespace]
        found.problem = policy_pods.sentence(key, why, names)
    if why is not None or policy is None or policy.observed:
        return found, False
    return found, policy_pods.needs_request(policy)


def _checked(pod: Pod, context: PodContext, decision: Decision | None) -> Steps[CheckedNodes]:
    """Check all nodes; `decision` is that of an enforced policy which applies."""
    names = context.decisions.table.nodes
    checked = CheckedNodes({}, [], [], [], [])
    refused = violators(decision.dontschedule, names).tolist() if decision else []
    unreported = decision.unreported if decision else frozenset()
    for begin in range(0, len(names), _BLOCK):
        for number in range(begin, min(begin + _BLOCK, len(names))):
            name = names[number]
            node = context.nodes.get(name)
            reasons = obstacles(node, pod) if node is not None else ["the node was deleted"]
            if reasons:
                checked.obstacles[name] = reasons
            elif name in unreported:
                checked.unreported.append(name)
            elif refused and refused[number]:
                checked.refused.append(name)
            elif name in context.scorers:
                checked.by_scorers.append(name)
            else:
                checked.left.append(name)
        yield
    return checked


def _rules(decision: Decision | None) -> tuple[Rule, ...]:
    strategy = decision.policy.strategies.get(StrategyName.DONTSCHEDULE) if decision else None
    return strategy.rules if strategy else ()


def _reasons(
    decision: Decision | None, nodes: NodeIndex, shown: Sequence[str]
) -> Steps[dict[str, str]]:
    """Return the reasons of the shown nodes; those of all nodes would take milliseconds in one step."""
    reasons: dict[str, str] = {}
    for begin in range(0, len(shown) if decision else 0, _BLOCK):
        among = np.zeros(len(nodes), dtype=bool)
        among[nodes.find(shown[begin : begin + _BLOCK])] = True
        reasons |= some_reasons(decision.dontschedule, among, nodes) if decision else {}
        yield
    return reasons


def _nodes(
    context: PodContext,
    decision: Decision | None,
    checked: CheckedNodes,
    reasons: Mapping[str, str],
    acts: bool,
    shown: Sequence[str],
    columns: Mapping[str, Iterator[ShownReading]],
    now: float,
    cause_of: CauseOf,
) -> Iterator[tuple[str, PodNode]]:
    names = context.decisions.table.nodes
    state = decision.states.get(StrategyName.DONTSCHEDULE) if decision else None
    positions = names.find(shown)
    broken = state.found.per_rule[positions].tolist() if state else itertools.repeat(())
    rules = _rules(decision)
    ranking = decision.ranking if decision else None
    scores = dict(ranking.scores(names)) if ranking and not ranking.rule.shown else {}
    for name, violated in zip(shown, broken, strict=False):
        row = {
            metric: reading.as_json(now, cause_of(metric, name, reading.source))
            for metric, reading in ((metric, next(column)) for metric, column in columns.items())
        }
        reason = reasons.get(name)
        yield (
            name,
            PodNode(
                obstacles=checked.obstacles.get(name, []),
                refused=reason if acts else None,
                would_refuse=reason if reason and not acts else UNSET,
                awaited=True if decision and name in decision.unreported else UNSET,
                rules=[
                    _rule(rule, row[rule.metric], violated=violated[number])
                    for number, rule in enumerate(rules)
                ],
                placed=list(context.placed(names.position[name])) or UNSET,
                score=scores.get(name, UNSET),
            ),
        )


def _rule(rule: Rule, reading: Reading, *, violated: bool) -> PodRule:
    return PodRule(
        rule=str(rule),
        target=rule.written or formatted(rule.target),
        target_value=rule.target,
        violated=violated,
        value=reading.value,
        age_seconds=reading.age_seconds,
        state=reading.state,
        source=reading.source,
        peers=reading.peers,
        cause=reading.cause,
    )
