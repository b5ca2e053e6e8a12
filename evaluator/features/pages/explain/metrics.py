"""Data of `/rules` and `/explain?metric=`: each metric that policies use, on how many nodes it can be used, and why not;
and the recording rules that fail on nodes, also for `/nodes/<name>`.

A collector that fails on a node shows as `unread` here, and with its error on the agent's own page: agents report errors
of recording rules only.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from msgspec import UNSET, structs

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.evaluate import MetricColumn, MetricTable
from evaluator.core.policy.problems import SimilarTo
from evaluator.core.readings.column import NEVER, Column
from evaluator.core.readings.reported import FailingRuleIndex
from evaluator.features.pages.kinds import (
    ExplainedMetric,
    FailedRule,
    FailingRules,
    FailureCounts,
    UsedMetric,
)
from evaluator.features.pages.kinds import FailingRule as ShownRule
from plimsoll.metric_names import PREFIX
from plimsoll.quantity import json_number
from plimsoll.steps import Steps
from wire.failing_rules import FailingRule

_SHOWN = 100
"""Failures listed; the others are counted."""
_BLOCK = 500
"""Nodes looked up in one step: well below a millisecond."""
_NAMED = 10
"""Nodes, and policies, named for each metric and failure; the others are counted."""
STATES = ("unread", "several", "notANumber", "stale", "absent", "awaited", "usable")
"""What a metric can be on a node, the most serious first; each node is in one of them."""
MOST = 200
"""Metrics on one page."""


@dataclass(slots=True)
class _Failure:
    """A rule that fails for one reason: its nodes, the time since when the first of them has it, and their messages."""

    rule: FailingRule
    """With the message of most nodes."""
    most: int = 0
    nodes: set[str] = field(default_factory=set)
    began: float = math.inf
    messages: int = 0

    def add(self, rule: FailingRule, since: Mapping[str, float]) -> None:
        """Add the nodes with one message."""
        if len(since) > self.most:
            self.rule, self.most = rule, len(since)
        self.nodes.update(since)
        self.began = min(self.began, *since.values())
        self.messages += 1

    def row(self, now: float) -> FailedRule:
        """Return this as data."""
        return FailedRule(
            **structs.asdict(_described(self.rule, now - self.began)),
            messages=self.messages,
            node_count=len(self.nodes),
            nodes=heapq.nsmallest(_NAMED, self.nodes),
        )


class ListedFailures(NamedTuple):
    """How many nodes and failures there are, and the listed failures, made while they are read."""

    counts: FailureCounts
    rows: Iterator[FailedRule]


def listed_failures(index: FailingRuleIndex, search: str, now: float) -> Steps[ListedFailures]:
    """Return the failures on nodes with a fresh report at `now` (seconds), those of most nodes first, in steps.

    Messages of one rule may differ, since they name series. `search`: part of the name of a rule, group or file.
    """
    fresh: dict[str, int] = {}
    for number, (node, more) in enumerate(index.nodes().items(), start=1):
        if index.age(node, now) is not None:
            fresh[node] = more
        if number % _BLOCK == 0:
            yield
    failures: dict[tuple[str, ...], _Failure] = {}
    for rule, times in index.failures():
        if any(search in name for name in (rule.file, rule.group, rule.rule)):
            since = {node: at for node, at in times.items() if node in fresh}
            if since:
                failures.setdefault(rule.identity, _Failure(rule)).add(rule, since)
        yield
    shown = heapq.nsmallest(
        _SHOWN, failures.values(), key=lambda each: (-len(each.nodes), each.rule)
    )
    counts = FailureCounts(len(fresh), len(failures), sum(fresh.values()))
    return ListedFailures(counts, (failure.row(now) for failure in shown))


def failing_on(index: FailingRuleIndex, node: str, now: float) -> FailingRules:
    """Return the failing rules of a node, and the age of its last report; null if that is stale."""
    failing = index.failing_rules(node, now)
    age = index.age(node, now)
    return FailingRules(
        age_seconds=None if age is None else _seconds(age),
        rules=[_described(rule, seconds) for rule, seconds in failing.seconds.items()],
        more=failing.more,
    )


def _described(rule: FailingRule, seconds: float) -> ShownRule:
    return ShownRule(rule.file, rule.group, rule.rule, rule.reason, rule.text, _seconds(seconds))


def _seconds(seconds: float) -> float:
    return round(max(0.0, seconds), 3)


def counts_by_state(decisions: Decisions) -> Steps[dict[str, dict[str, int]]]:
    """Return each metric of the policies with its nodes by state, in steps; those that a source cannot read come first."""
    nodes = decisions.table.nodes
    counts: dict[str, dict[str, int]] = {}
    for metric, column in decisions.table.columns.items():
        masks = _masks(column)
        counts[metric] = {state: int(np.count_nonzero(mask)) for state, mask in masks.items()}
        yield
    order = sorted(counts, key=lambda metric: (_rank(counts[metric], nodes), metric))
    yield
    return {metric: counts[metric] for metric in order}


def _rank(counts: Mapping[str, int], nodes: NodeIndex) -> int:
    """Return the position of a metric's most serious state; a metric that no node has comes right after failures."""
    if counts["absent"] == len(nodes) and len(nodes):
        return 1
    bad = (number for number, state in enumerate(STATES) if counts[state] and state != "absent")
    return next(bad, len(STATES)) * 2


def rows(
    decisions: Decisions,
    counts: Mapping[str, Mapping[str, int]],
    shown: Sequence[str],
    similar_to: SimilarTo,
) -> Iterator[tuple[str, UsedMetric]]:
    """Yield the shown metrics with the nodes that cannot use them, and the policies that do."""
    users: dict[str, list[PolicyKey]] = {metric: [] for metric in shown}
    for key, decision in decisions.policies.items():
        for metric in decision.policy.metrics & users.keys():
            users[metric].append(key)
    nodes = decisions.table.nodes
    for metric in shown:
        column = decisions.table.columns[metric]
        masks = _masks(column)
        problem = decisions.table.column(metric).fault
        named = {
            state: list(nodes.names_at(_first(masks[state])))
            for state in ("unread", "several", "notANumber", "stale")
            if counts[metric][state]
        }
        yield (
            metric,
            UsedMetric(
                nodes=dict(counts[metric]),
                named=named,
                policies=[str(key) for key in users[metric][:_NAMED]],
                policies_more=max(0, len(users[metric]) - _NAMED) or UNSET,
                similar=list(similar_to(metric) or ()),
                problem=problem,
            ),
        )


def _masks(column: Column) -> dict[str, Mask]:
    """Return the nodes in each state."""
    left = np.ones(len(column.values), dtype=bool)
    masks: dict[str, Mask] = {}

    def take(state: str, where: Mask) -> None:
        nonlocal left
        masks[state] = left & where
        left = left & ~where

    take("unread", column.unread)
    take("awaited", column.unreported)
    take("usable", column.usable)
    take("several", column.fresh & (column.samples > 1))
    take("absent", (column.fresh & (column.samples == 0)) | (column.at == NEVER))
    take("stale", ~column.fresh)
    take("notANumber", left)
    return masks


def _first(mask: Mask) -> Mask:
    """Return the first nodes of a mask."""
    few = np.zeros_like(mask)
    few[mask.nonzero()[0][:_NAMED]] = True
    return few


def explain(
    metrics: Iterable[str], table: MetricTable, similar_to: SimilarTo
) -> Iterator[tuple[str, ExplainedMetric]]:
    """Yield (metric, what is known of it); a metric of no policy is not read.

    A policy may name the same series without the prefix `node_`.
    """
    for metric in metrics:
        bare = metric.removeprefix(PREFIX)
        known = (table.prepared.get(name) for name in (metric, bare, PREFIX + bare))
        column = next((prepared for prepared in known if prepared is not None), None)
        if column is None:
            yield metric, ExplainedMetric(read=False)
        else:
            yield metric, _explained(column, list(similar_to(column.metric) or ()))


def _explained(column: MetricColumn, similar: list[str]) -> ExplainedMetric:
    readings = column.readings
    having = readings.samples > 0
    pending = ~having & (readings.unreported | readings.unread)
    values = column.values[~np.isnan(column.values)]
    return ExplainedMetric(
        read=True,
        nodes_with=int(np.count_nonzero(having)),
        nodes_with_several=int(np.count_nonzero(readings.fresh & (readings.samples > 1))),
        nodes_without=int(np.count_nonzero(~having & ~pending & readings.fresh)),
        nodes_pending=int(np.count_nonzero(pending)),
        lowest=json_number(float(values.min())) if values.size else None,
        highest=json_number(float(values.max())) if values.size else None,
        similar=similar,
    )
