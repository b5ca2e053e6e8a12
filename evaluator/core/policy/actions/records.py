"""Which taints and conditions of a node show, after a restart, that it violated a strategy."""

from collections.abc import Iterator

from evaluator.core.policy.actions import names
from evaluator.core.policy.actions.types import Action, TaintEffect
from evaluator.core.policy.types import VIOLATING, Policy, StrategyName


def records_of(policy: Policy, name: StrategyName) -> Iterator[tuple[str, str]]:
    """Yield the records of nodes that violated a strategy, with their values.

    A condition names the strategy. A taint says so for NoExecute only: other effects are set for either strategy, and
    count for dontschedule if the policy has it, because a wrong deschedule would evict pods.
    """
    if name not in (StrategyName.DONTSCHEDULE, StrategyName.DESCHEDULE):
        return
    reasons, effects = [names.DESCHEDULE_VIOLATED], [TaintEffect.NO_EXECUTE]
    if name is StrategyName.DONTSCHEDULE:
        reasons.append(names.DONTSCHEDULE_VIOLATED)
    if name is StrategyName.DONTSCHEDULE or StrategyName.DONTSCHEDULE not in policy.strategies:
        effects = [*TaintEffect]
    if Action.CONDITION in policy.actions.kinds:
        record = names.condition_record(policy.actions.condition)
        yield from ((record, f"True/{reason}") for reason in reasons)
    if Action.TAINT in policy.actions.kinds:
        suffix = names.taint_suffix(policy.key)
        yield from ((names.taint_record(suffix, effect), VIOLATING) for effect in effects)
