"""Rules as a JSON document: groups, expressions, current results and errors; for the agent's page."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent.rules.groups.file import Group, Rule, RuleError
from agent.rules.groups.metrics import GroupAccount
from agent.rules.groups.tick import Results
from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.values import Vector
from collectors.shared.formats.numerals import format_float
from plimsoll.text import one_line

_SERIES = 5
"""Results shown of one rule; `series` counts all."""
_EXPRESSION = 300
"""Characters shown of an expression."""


def document(
    groups: Iterable[tuple[Group, GroupAccount]],
    results: Results,
    errors: Collection[RuleError],
    files: Iterable[tuple[str, str, str]],
    *,
    now: float,
    limit: int,
) -> Mapping[str, Any]:
    """Return the document. `now`: Unix time in seconds. `limit`: rules at most. `files`: path, reason and text of errors."""
    failing = {(error.group, error.rule): error for error in errors}
    shown, left, more = [], limit, 0
    for group, account in groups:
        rules = [_rule(rule, group, results, failing) for rule in group.rules[:left]]
        left -= len(rules)
        more += len(group.rules) - len(rules)
        shown.append({**_group(account, now), "rules": rules})
    page: dict[str, Any] = {
        "files": [{"file": file, "reason": why, "message": text} for file, why, text in files],
        "failing": [error._asdict() for error in sorted(errors)[:limit]],
        "groups": shown,
    }
    return {**page, "rulesMore": more} if more else page


def _group(account: GroupAccount, now: float) -> Mapping[str, Any]:
    return {
        "name": account.group,
        "intervalSeconds": account.interval,
        "durationSeconds": account.duration,
        "ageSeconds": None if account.timestamp is None else max(0.0, now - account.timestamp),
        "missed": account.missed,
        "memoryBytes": account.bytes,
    }


def _rule(
    rule: Rule,
    group: Group,
    results: Results,
    failing: Mapping[tuple[str, str], RuleError],
) -> Mapping[str, Any]:
    series = _of_rule(rule, results.get(rule.record, []))
    error = failing.get((group.name, rule.record)) or failing.get((group.name, ""))
    return {
        "record": rule.record,
        "labels": dict(rule.labels),
        "expression": one_line(rule.expression.text, _EXPRESSION),
        "series": len(series),
        "results": [
            {"labels": dict(_without_name(labels)), "value": format_float(value)}
            for labels, value in series[:_SERIES]
        ],
        "error": None if error is None else {"reason": error.reason, "message": error.text},
    }


def _of_rule(rule: Rule, vector: Vector) -> Sequence[tuple[Labels, float]]:
    """Return the series with the rule's labels: several rules may record one metric."""
    own = {pair for pair in rule.labels if pair[1]}
    return [(labels, value) for labels, value in vector if own <= {*labels}] if own else vector


def _without_name(labels: Labels) -> Iterator[tuple[str, str]]:
    return (pair for pair in labels if pair[0] != NAME)
