"""Data of `/rules` and `/nodes/<name>`: the recording rules that fail on nodes, as their agents report them."""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from evaluator.model.steps import Steps
from evaluator.readings.failing_rules import FailingRuleIndex
from wire.failing_rules import FailingRule

_SHOWN = 100
"""Failures listed; the others are counted."""
_NAMED = 10
"""Nodes named for each failure; the others are counted."""
_BLOCK = 500
"""Nodes looked up in one step: well below a millisecond."""


class _Failure(NamedTuple):
    """A failure with the nodes that have it; `began`: on the first of them (seconds)."""

    rule: FailingRule
    nodes: Sequence[str]
    began: float


class Listed(NamedTuple):
    """How many nodes and failures there are, and the listed failures, made while they are read."""

    counts: dict[str, int]
    rows: Iterator[dict[str, Any]]


def listed(index: FailingRuleIndex, search: str, now: float) -> Steps[Listed]:
    """Return the failures on nodes with a fresh report at `now` (seconds), those of most nodes first, in steps.

    `search`: part of the name of a rule, group or file.
    """
    fresh: dict[str, int] = {}
    for number, (node, more) in enumerate(index.nodes().items(), start=1):
        if index.age(node, now) is not None:
            fresh[node] = more
        if number % _BLOCK == 0:
            yield
    found = []
    for rule, since in index.failures():
        if any(search in name for name in (rule.file, rule.group, rule.rule)):
            nodes = [node for node in since if node in fresh]
            if nodes:
                found.append(_Failure(rule, nodes, min(since[node] for node in nodes)))
        yield
    found.sort(key=lambda failure: (-len(failure.nodes), failure.rule))
    counts = {"nodes": len(fresh), "failures": len(found), "notStored": sum(fresh.values())}
    return Listed(counts, (_row(failure, now) for failure in found[:_SHOWN]))


def _row(failure: _Failure, now: float) -> dict[str, Any]:
    return {
        **_described(failure.rule),
        "nodeCount": len(failure.nodes),
        "nodes": heapq.nsmallest(_NAMED, failure.nodes),
        "failingSeconds": _seconds(now - failure.began),
    }


def of_node(index: FailingRuleIndex, node: str, now: float) -> dict[str, Any]:
    """Return the failing rules of a node, and the age of its last report; null if that is stale."""
    found = index.of(node, now)
    age = index.age(node, now)
    rules = [
        {**_described(rule), "failingSeconds": _seconds(seconds)}
        for rule, seconds in found.seconds.items()
    ]
    return {
        "ageSeconds": None if age is None else _seconds(age),
        "rules": rules,
        "more": found.more,
    }


def _described(rule: FailingRule) -> dict[str, Any]:
    return {
        "file": rule.file,
        "group": rule.group,
        "rule": rule.rule,
        "reason": rule.reason,
        "message": rule.text,
    }


def _seconds(seconds: float) -> float:
    return round(max(0.0, seconds), 3)
