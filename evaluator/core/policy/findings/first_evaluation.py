"""Whether the first evaluation of a policy refused every node to its pods, which is rarely intended.

The result holds until a node is allowed, or the policy is edited. After a restart it is read from the status in the cluster.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy

VALID = "Valid"
"""The condition that has a policy's problems."""
AWAITED = "ReadingsAwaited"
"""The reason of a condition while first readings are awaited."""

_EVERY_NODE = "every node at its first evaluation"


def problem(policy: Policy) -> str:
    """Return the problem of a policy that refused every node from the start; the text is constant (used in Events)."""
    name = StrategyName.DONTSCHEDULE
    if policy.observed:
        return f"{name} would refuse {_EVERY_NODE}: if enforced, no pod of the policy can be placed"
    return (
        f"{name} refused {_EVERY_NODE}: no pod of the policy can be placed; if that is not intended, set its annotation "
        "plimsoll.io/enforcement: observe"
    )


def reported(policy: Policy) -> bool | None:
    """Return the result in the policy's status: whether it refused every node; None if it was not evaluated yet.

    It counts for the first decision of a process; a status that is written later may be that of half the nodes.
    """
    known = {str(one.get("type")): one for one in _conditions(policy.status, policy.generation)}
    if _EVERY_NODE in str(known.get(VALID, {}).get("message")):
        return True
    evaluated = known.get(StrategyName.DONTSCHEDULE.row.condition)
    return False if evaluated is not None and evaluated.get("reason") != AWAITED else None


def _conditions(status: Mapping[str, Any], generation: int) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions of a generation from an unvalidated status."""
    found = status.get("conditions")
    for one in found if isinstance(found, list) else ():
        if isinstance(one, Mapping) and one.get("observedGeneration") == generation:
            yield one
