"""Variants of policies for a sensitivity table: targets, `for` and `clearAfter` scaled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy, Rule, RuleOptions, Strategy

TARGETS = (0.8, 0.9, 1.0, 1.1, 1.2)
"""Factors of all targets."""
DURATIONS = (0.0, 1.0, 2.0)
"""Factors of all durations."""
FOR, CLEAR_AFTER = 120.0, 300.0
"""Seconds to vary where a policy has no duration."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Policies with scaled targets, `for` and `clearAfter`; the last two are factors of what is written, or of a default."""

    target: float
    for_factor: float
    clear_factor: float
    policies: Sequence[Policy]


def variants(policies: Sequence[Policy]) -> Iterator[Variant]:
    """Yield all combinations."""
    for target in TARGETS:
        for hold in DURATIONS:
            for clear in DURATIONS:
                made = [_policy(policy, target, hold, clear) for policy in policies]
                yield Variant(target, hold, clear, made)


def longest(policies: Sequence[Policy]) -> tuple[float, float]:
    """Return the longest `for` and `clearAfter` of the rules of policies (seconds), or the defaults that are varied."""
    options = [
        rule.options
        for policy in policies
        for strategy in policy.strategies.values()
        for rule in strategy.rules
    ]
    return (
        max((option.for_seconds for option in options), default=0.0) or FOR,
        max((option.clear_after for option in options), default=0.0) or CLEAR_AFTER,
    )


def _policy(policy: Policy, target: float, hold: float, clear: float) -> Policy:
    strategies = {
        name: strategy
        if name is StrategyName.SCHEDULEONMETRIC
        else _strategy(strategy, target, hold, clear)
        for name, strategy in policy.strategies.items()
    }
    return replace(policy, strategies=strategies)


def _strategy(strategy: Strategy, target: float, hold: float, clear: float) -> Strategy:
    rules: list[Rule] = []
    for rule in strategy.rules:
        options = RuleOptions(
            hold * (rule.options.for_seconds or FOR),
            clear * (rule.options.clear_after or CLEAR_AFTER),
            rule.options.when_missing,
        )
        scaled = rule.target if target == 1 else rule.target * target
        written = rule.written if target == 1 else ""
        rules.append(replace(rule, target=scaled, options=options, written=written))
    return replace(strategy, rules=tuple(rules))
