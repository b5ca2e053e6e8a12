"""Data of `/rules` and `/nodes/<name>`: the recording rules that fail on nodes, as their agents report them."""

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evaluator.core.model.steps import Steps
from evaluator.core.readings.failing_rules import FailingRuleIndex
from wire.failing_rules import FailingRule

_SHOWN = 100
"""Failures listed; the others are counted."""
_NAMED = 10
"""Nodes named for each failure; the others are counted."""
_BLOCK = 500
"""Nodes looked up in one step: well below a millisecond."""


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

    def row(self, now: float) -> dict[str, Any]:
        """Return this as data."""
        return {
            **_described(self.rule),
            "messages": self.messages,
            "nodeCount": len(self.nodes),
            "nodes": heapq.nsmallest(_NAMED, self.nodes),
            "failingSeconds": _seconds(now - self.began),
        }


class Listed(NamedTuple):
    """How many nodes and failures there are, and the listed failures, made while they are read."""

    counts: dict[str, int]
    rows: Iterator[dict[str, Any]]


def listed(index: FailingRuleIndex, search: str, now: float) -> Steps[Listed]:
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
    counts = {"nodes": len(fresh), "failures": len(failures), "notStored": sum(fresh.values())}
    return Listed(counts, (failure.row(now) for failure in shown))


def of_node(index: FailingRuleIndex, node: str, now: float) -> dict[str, Any]:
    """Return the failing rules of a node, and the age of its last report; null if that is stale."""
    failing = index.of(node, now)
    age = index.age(node, now)
    rules = [
        {**_described(rule), "failingSeconds": _seconds(seconds)}
        for rule, seconds in failing.seconds.items()
    ]
    return {
        "ageSeconds": None if age is None else _seconds(age),
        "rules": rules,
        "more": failing.more,
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
