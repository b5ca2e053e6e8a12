"""Parses the annotations of a policy about taints, conditions and its limit of nodes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from evaluator.core.policy.strategies import COMPLIANCE, STRONGEST_FIRST, StrategyName
from evaluator.core.policy.types import VIOLATING, ActionPart, Policy
from evaluator.core.policy.vocabulary import ACTIONS, NodeActions
from evaluator.features.node_actions import names
from evaluator.features.node_actions.limit import DEFAULT_LIMIT, NodeLimit, node_limit
from plimsoll.text import shown

TAINT = "taint"
CONDITION = "condition"
TAINT_EFFECT = "plimsoll.io/taint-effect"
CONDITION_TYPE = "plimsoll.io/condition-type"
MAX_NODES = "plimsoll.io/max-nodes"


class TaintEffect(StrEnum):
    """The effect of a taint, weakest first."""

    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"

    @property
    def hard(self) -> bool:
        """Whether pods cannot be scheduled on the node."""
        return self is not TaintEffect.PREFER_NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class TaintsAndConditions(ActionPart):
    """The actions of one policy.

    `condition`: the type of the node condition. `limit`: the most nodes that get hard taints or lose pods;
    `limits_all`: the policy's author wrote it, so it limits soft taints too.
    """

    effect: TaintEffect = TaintEffect.PREFER_NO_SCHEDULE
    condition: str = ""
    limit: NodeLimit = DEFAULT_LIMIT
    limits_all: bool = False

    def records(self, policy: Policy, strategy: StrategyName) -> Iterator[tuple[str, str]]:
        """Yield the records of nodes that violated a strategy, with their values.

        A condition names the strategy. A taint says so for NoExecute only: other effects are set for every strategy, and do
        not count for deschedule if the policy has another, because a wrong deschedule would evict pods.
        """
        if strategy not in STRONGEST_FIRST:
            return
        effects = [*TaintEffect]
        if strategy is StrategyName.DESCHEDULE and len(policy.strategies.keys() & COMPLIANCE) > 1:
            effects = [TaintEffect.NO_EXECUTE]
        if CONDITION in self.kinds:
            record = names.condition_record(self.condition)
            stronger = STRONGEST_FIRST[: STRONGEST_FIRST.index(strategy) + 1]
            yield from ((record, names.violated(name)) for name in stronger)
        if TAINT in self.kinds:
            suffix = names.taint_suffix(policy.key)
            yield from ((names.taint_record(suffix, effect), VIOLATING) for effect in effects)

    def conditions(self) -> Iterator[str]:
        """Yield the type of the node condition."""
        if CONDITION in self.kinds:
            yield self.condition

    def described(self, policy: Policy) -> Iterator[str]:
        """Yield a sentence for the taint and one for the condition."""
        if TAINT in self.kinds:
            effect, key = self.effect, names.taint_key(names.DOMAIN, policy.key)
            more = ""
            if effect is TaintEffect.NO_EXECUTE:
                effect, more = TaintEffect.NO_SCHEDULE, f", {effect} where deschedule is violated"
            limited = effect.hard or self.limits_all
            limit = f", on at most {self.limit} of the nodes with its metrics" if limited else ""
            yield f"taint {key}:{effect} on violating nodes{more}{limit}, for every pod (needs --taints)"
        if CONDITION in self.kinds:
            yield f"condition {self.condition}: True on violating nodes (needs --conditions)"

    def advice(self, policy: Policy) -> Iterator[str]:
        """Yield a warning for a taint that would be set and taken off again with each change of a reading."""
        strategies = [policy.strategies[name] for name in COMPLIANCE if name in policy.strategies]
        rules = [rule for strategy in strategies for rule in strategy.rules]
        if TAINT in self.kinds and any(rule.options.clear_after == 0 for rule in rules):
            yield (
                f"{ACTIONS}: taint: without clearAfter, the taint goes as soon as a reading is good: where load moves away "
                "with the pods, it comes and goes"
            )


def parse(
    policy: str, annotations: Mapping[str, object], kinds: frozenset[str], problems: list[str]
) -> TaintsAndConditions:
    """Return the actions of a policy, of those that it names (`kinds`); errors are added to `problems`."""
    effect, kinds = _effect(annotations.get(TAINT_EFFECT), kinds, problems)
    condition, kinds = _condition(policy, annotations.get(CONDITION_TYPE), kinds, problems)
    limit = _limit(annotations.get(MAX_NODES), problems)
    return TaintsAndConditions(kinds, effect, condition, limit, limits_all=MAX_NODES in annotations)


NODE_ACTIONS = NodeActions((TAINT, CONDITION), parse, (TAINT_EFFECT, CONDITION_TYPE, MAX_NODES))


def _effect(
    text: object, kinds: frozenset[str], problems: list[str]
) -> tuple[TaintEffect, frozenset[str]]:
    if text is None or text in tuple(TaintEffect):
        effect = TaintEffect.PREFER_NO_SCHEDULE if text is None else TaintEffect(str(text))
        return effect, kinds
    known = ", ".join(TaintEffect)
    problems.append(
        f"annotation {TAINT_EFFECT}: {shown(text)} is unknown (one of {known}): no taint is set"
    )
    return TaintEffect.PREFER_NO_SCHEDULE, kinds - {TAINT}


def _condition(
    policy: str, text: object, kinds: frozenset[str], problems: list[str]
) -> tuple[str, frozenset[str]]:
    name = names.condition_type(policy) if text is None else str(text)
    if flaw := names.condition_flaw(name):
        problems.append(
            f"annotation {CONDITION_TYPE}: {flaw}: no condition is set; write it like plimsoll.io/MemoryContended"
        )
        return "", kinds - {CONDITION}
    return name, kinds


def _limit(text: object, problems: list[str]) -> NodeLimit:
    if text is None:
        return DEFAULT_LIMIT
    try:
        return node_limit(str(text).strip())
    except ValueError as error:
        problems.append(
            f"annotation {MAX_NODES}: {error}: no further node is tainted or emptied until it is valid"
        )
        return NodeLimit(0)
