"""What works in a policy, but is probably not what its author wants."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from evaluator.policy.labeling import rules_by_label
from evaluator.policy.rule_options import WhenMissing
from evaluator.policy.types import Operator, Policy, Rule, Strategy, StrategyName
from plimsoll.text import counted

_EXACT = 2**53


def advice(policy: Policy, obj: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about a policy; `obj` is the manifest it was read from."""
    if not policy.strategies and not policy.problems:
        yield "it has no strategies: pods that follow it go anywhere"
    for name, strategy in policy.strategies.items():
        yield from (f"{name}: {sentence}" for sentence in _of_strategy(name, strategy))
        yield from _of_manifest(name, obj["spec"]["strategies"][name])
    yield from _of_descheduling(policy)


def _of_strategy(name: StrategyName, strategy: Strategy) -> Iterator[str]:
    rules = strategy.rules
    if not rules and not strategy.impossible:
        yield "it has no rules, so it does nothing"
    for number, rule in enumerate(rules, start=1):
        if rule in rules[: number - 1]:
            yield f"rule {number} is there twice"
        if abs(rule.target) > _EXACT:
            yield f"rule {number}: numbers beyond 2^53 are compared as doubles, not exactly"
    if name is StrategyName.SCHEDULEONMETRIC:
        return
    if strategy.all_of and _contradict(rules):
        yield "no reading breaks all of its rules at once, so it is never violated"
    if not strategy.all_of and (metric := _always(rules)):
        yield f"its rules leave no value of {metric}: every node with a reading violates it"
    yield from _of_labels(strategy)


def _of_labels(strategy: Strategy) -> Iterator[str]:
    """Labels that are left out on nodes where two rules of the strategy hold."""
    for key, by_value in rules_by_label(strategy).items():
        owners = [(number, value) for value, same in by_value.items() for number in same]
        pairs = (
            sorted((one, other))
            for (one, value), (other, another) in combinations(owners, 2)
            if value != another and _contradictory(strategy.rules[one], strategy.rules[other])
        )
        if pair := next(iter(sorted(pairs)), None):
            one, other = (number + 1 for number in pair)
            yield (
                f"label {key} is not set on nodes where rules {one} and {other} both hold: they have different "
                "operators and name different values"
            )


def _contradictory(one: Rule, other: Rule) -> bool:
    """Whether rules with different operators may hold on one node."""
    return one.operator is not other.operator and not _contradict((one, other))


def _of_manifest(name: StrategyName, body: Mapping[str, Any]) -> Iterator[str]:
    given = body["rules"]
    if name is StrategyName.SCHEDULEONMETRIC:
        if len(given) > 1:
            yield f"{name}: only its first rule ranks nodes; ignored: {counted(len(given) - 1, 'rule')}"
        if isinstance(given[0] if given else None, Mapping) and given[0].get("target"):
            yield f"{name}: a ranking has no target, so the one given does nothing"
    if name is not StrategyName.LABELING:
        for number, rule in enumerate(given, start=1):
            if isinstance(rule, Mapping) and rule.get("labels"):
                yield f"{name}: rule {number}: labels are set by the strategy labeling only"


def _of_descheduling(policy: Policy) -> Iterator[str]:
    leave = policy.strategies.get(StrategyName.DESCHEDULE)
    if leave is None or not leave.rules or leave.impossible:
        return
    if not covers(policy.strategies.get(StrategyName.DONTSCHEDULE), leave):
        yield (
            f"{StrategyName.DESCHEDULE}: not every node that pods should leave is refused by "
            f"{StrategyName.DONTSCHEDULE}: they may come back at once, to leave again"
        )
    if any(rule.options.when_missing is WhenMissing.VIOLATE for rule in leave.rules):
        yield (
            f"{StrategyName.DESCHEDULE}: with whenMissing: violate, pods leave a node whose telemetry fails"
        )


def covers(stay_away: Strategy | None, leave: Strategy) -> bool:
    """Whether each node that violates `leave` violates `stay_away` too."""
    if stay_away is None or not stay_away.rules:
        return False
    mine, theirs = stay_away.rules, leave.rules
    if leave.all_of:  # all of these are broken
        found = [any(implies(one, other) for one in theirs) for other in mine]
        return all(found) if stay_away.all_of else any(found)
    each = all if stay_away.all_of else any
    return all(each(implies(one, other) for other in mine) for one in theirs)


def implies(one: Rule, other: Rule) -> bool:
    """Whether every reading that breaks a rule breaks the other as well, as soon and as long."""
    if one.metric != other.metric:
        return False
    if (one.options.when_missing, other.options.when_missing) == (
        WhenMissing.VIOLATE,
        WhenMissing.IGNORE,
    ):
        return False
    if (
        one.options.for_seconds < other.options.for_seconds
        or one.options.clear_after > other.options.clear_after
    ):
        return False
    match one.operator, other.operator:
        case Operator.EQUALS, Operator.LESS_THAN:
            return one.target < other.target
        case Operator.EQUALS, Operator.GREATER_THAN:
            return one.target > other.target
        case Operator.LESS_THAN, Operator.LESS_THAN:
            return one.target <= other.target
        case Operator.GREATER_THAN, Operator.GREATER_THAN:
            return one.target >= other.target
        case _:
            return one.operator is other.operator and one.target == other.target


def _contradict(rules: Sequence[Rule]) -> bool:
    """Whether some two rules about one metric cannot be broken by one reading."""
    plain = [
        r
        for r in rules
        if not r.options.timed and r.options.when_missing is not WhenMissing.VIOLATE
    ]
    return any(
        one.metric == other.metric and _exclude(one, other) for one in plain for other in plain
    )


def _exclude(one: Rule, other: Rule) -> bool:
    match one.operator, other.operator:
        case Operator.EQUALS, Operator.EQUALS:
            return one.target != other.target
        case Operator.EQUALS, Operator.LESS_THAN:
            return one.target >= other.target
        case Operator.EQUALS, Operator.GREATER_THAN:
            return one.target <= other.target
        case Operator.LESS_THAN, Operator.GREATER_THAN:
            return one.target <= other.target
        case _:
            return False


def _always(rules: Sequence[Rule]) -> str:
    """A metric of which every value breaks some rule; empty if there is none."""
    for metric in dict.fromkeys(rule.metric for rule in rules):
        mine = [rule for rule in rules if rule.metric == metric]
        below = [rule.target for rule in mine if rule.operator is Operator.LESS_THAN]
        above = [rule.target for rule in mine if rule.operator is Operator.GREATER_THAN]
        if below and above and max(below) > min(above):
            return metric
    return ""
