"""Parses the annotations of a TASPolicy that name its actions on nodes.

Annotations, and not fields of the spec: TAS's own CRD prunes fields that it does not know.
"""

from collections.abc import Mapping

from evaluator.core.policy.actions import names
from evaluator.core.policy.actions.types import (
    DEFAULT_LIMIT,
    Action,
    Actions,
    NodeLimit,
    TaintEffect,
    node_limit,
)
from plimsoll.text import shown

ACTIONS = "plimsoll.io/actions"
TAINT_EFFECT = "plimsoll.io/taint-effect"
CONDITION_TYPE = "plimsoll.io/condition-type"
MAX_NODES = "plimsoll.io/max-nodes"


def parse_actions(
    policy: str, annotations: Mapping[str, object], problems: list[str], *, can_violate: bool
) -> Actions:
    """Return the actions of a policy; errors are added to `problems`.

    An invalid part disables its action: nothing is done that the author did not write. `can_violate`: the policy has a
    dontschedule or deschedule strategy.
    """
    kinds = _kinds(annotations.get(ACTIONS), problems)
    others = ", ".join(sorted(kinds - {Action.LABEL}))
    if others and not can_violate:
        problems.append(
            f"annotation {ACTIONS}: {others}: the policy has neither dontschedule nor deschedule: no node is acted on"
        )
        kinds &= {Action.LABEL}
    effect, kinds = _effect(annotations.get(TAINT_EFFECT), kinds, problems)
    condition, kinds = _condition(policy, annotations.get(CONDITION_TYPE), kinds, problems)
    limit = _limit(annotations.get(MAX_NODES), problems)
    return Actions(kinds, effect, condition, limit, limits_all=MAX_NODES in annotations)


def _kinds(text: object, problems: list[str]) -> frozenset[Action]:
    if text is None:
        return frozenset({Action.LABEL})
    words = [word.strip() for word in str(text).split(",")]
    unknown = [word for word in words if word and word not in tuple(Action)]
    for word in unknown[:3]:
        known = ", ".join(Action)
        problems.append(
            f"annotation {ACTIONS}: {shown(word)} is unknown (one of {known}): left out"
        )
    return frozenset(Action(word) for word in words if word in tuple(Action))


def _effect(
    text: object, kinds: frozenset[Action], problems: list[str]
) -> tuple[TaintEffect, frozenset[Action]]:
    if text is None or text in tuple(TaintEffect):
        effect = TaintEffect.PREFER_NO_SCHEDULE if text is None else TaintEffect(str(text))
        return effect, kinds
    known = ", ".join(TaintEffect)
    problems.append(
        f"annotation {TAINT_EFFECT}: {shown(text)} is unknown (one of {known}): no taint is set"
    )
    return TaintEffect.PREFER_NO_SCHEDULE, kinds - {Action.TAINT}


def _condition(
    policy: str, text: object, kinds: frozenset[Action], problems: list[str]
) -> tuple[str, frozenset[Action]]:
    name = names.condition_type(policy) if text is None else str(text)
    if flaw := names.condition_flaw(name):
        problems.append(
            f"annotation {CONDITION_TYPE}: {flaw}: no condition is set; write it like plimsoll.io/MemoryContended"
        )
        return "", kinds - {Action.CONDITION}
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
