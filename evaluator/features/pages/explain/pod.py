"""Data of /explain for a pod: its policy, what refuses it on each node, and why it waits."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evaluator.core.cache import policy_pods
from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.model.feasibility import obstacles
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import Pod
from evaluator.core.pages.window import Window
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Rule, formatted
from evaluator.core.policy.violations import some_reasons, violators
from evaluator.core.readings.merged import Readings
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.features.pages.explain.pod_summary import CheckedNodes, PodContext, attempt, summary
from evaluator.features.pages.explain.policy import MOST_READINGS, Explanation
from evaluator.features.pages.explain.wording import ShownReading, readings_of
from plimsoll.steps import Steps

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
) -> Steps[Explanation]:
    """Return the explanation of a pod at `now` (seconds, the store's clock), in steps.

    Nodes that the policy refuses come first, then those that are left; `window`: which of them are shown. By default at
    most `MOST_READINGS` readings are shown.
    """
    policy, acts = _policy(pod, context)
    decision = context.decision if policy and policy["applies"] else None
    checked = yield from _checked(pod, context, decision if acts else None)
    rules = _rules(decision)
    shown, extent = _shown(checked, window, len(rules))
    yield
    columns: dict[str, Iterator[ShownReading]] = {}
    for metric in sorted({rule.metric for rule in rules}):
        columns[metric] = readings_of(readings.column(metric, shown, now))
        yield
    reasons = yield from _reasons(decision, context.decisions.table.nodes, shown)
    turned_away, why = summary(pod, context, policy, checked)
    total = len(context.decisions.table.nodes)
    head = {
        "waitingFor": list(context.waiting_for),
        "pod": str(pod),
        "summary": why,
        "turnedAwayByPlimsoll": turned_away,
        "node": pod.spec.node_name or None,
        "phase": pod.status.phase,
        "policy": policy,
        "gates": [gate.name for gate in pod.spec.scheduling_gates or ()],
        "scheduler": pod.spec.scheduler_name,
        **attempt(pod),
        "nodeCounts": {
            "total": total,
            "notFeasible": len(checked.obstacles),
            "refusedByPolicy": len(checked.refused),
            "awaitingReadings": len(checked.unreported),
            "refusedByScorers": len(checked.by_scorers),
            "left": len(checked.left),
        },
        **extent,
    }
    rows = _nodes(context, decision, checked, reasons, acts, shown, columns, now, cause_of)
    return Explanation(head, rows)


def _shown(
    checked: CheckedNodes, window: Window | None, rules: int
) -> tuple[Sequence[str], dict[str, Any]]:
    """Return the nodes to show, and how many there are as a field."""
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
        more = len(order) - most
        return order[:most], {"nodesMore": more} if more > 0 else {}
    chosen = [name for name in groups.get(window.state, order) if window.search in name]
    return window.of(chosen), {"window": window.described(len(chosen), len(order))}


def _policy(pod: Pod, context: PodContext) -> tuple[dict[str, Any] | None, bool]:
    """Return the pod's policy, and whether it acts on where the pod is placed."""
    key = policy_of(pod)
    if key is None:
        return None, False
    policies = {name: decision.policy for name, decision in context.decisions.policies.items()}
    namespaces = {name.namespace for name in policies if name.name == key.name}
    requests = pod.spec.requests_extender
    why = policy_pods.why_not_applied(key, policies, namespaces, requests=requests)
    facts: dict[str, Any] = {"name": str(key), "applies": why is None}
    if (policy := policies.get(key)) is not None:
        facts["mode"] = "observe" if policy.observed else "enforce"
        facts["problems"] = list(context.decisions.policies[key].problems)
        facts["warnings"] = list(policy.warnings)
    if why is not None:
        names = [name.name for name in policies if name.namespace == key.namespace]
        facts["problem"] = policy_pods.sentence(key, why, names)
    if why is not None or policy is None or policy.observed:
        return facts, False
    return facts, policy_pods.needs_request(policy)


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
) -> Iterator[tuple[str, dict[str, Any]]]:
    names = context.decisions.table.nodes
    state = decision.states.get(StrategyName.DONTSCHEDULE) if decision else None
    positions = names.find(shown)
    broken = state.found.per_rule[positions].tolist() if state else itertools.repeat(())
    rules = _rules(decision)
    scores = dict(decision.ranking.scores(names)) if decision and decision.ranking else {}
    for name, violated in zip(shown, broken, strict=False):
        row = {
            metric: reading.as_json(now, cause_of(metric, name, reading.source))
            for metric, reading in ((metric, next(column)) for metric, column in columns.items())
        }
        entry: dict[str, Any] = {"obstacles": checked.obstacles.get(name, [])}
        reason = reasons.get(name)
        entry["refused"] = reason if acts else None
        if reason and not acts:
            entry["wouldRefuse"] = reason
        if decision and name in decision.unreported:
            entry["awaited"] = True
        entry["rules"] = [
            {
                "rule": str(rule),
                "target": rule.written or formatted(rule.target),
                "targetValue": rule.target,
                **row[rule.metric],
                "violated": violated[number],
            }
            for number, rule in enumerate(rules)
        ]
        if found := list(context.placed(names.position[name])):
            entry["placed"] = found
        if name in scores:
            entry["score"] = scores[name]
        yield name, entry
