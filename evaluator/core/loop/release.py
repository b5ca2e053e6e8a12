"""Frees replaced decisions in steps: freeing those of 100 policies of 100 rules at once takes 10 ms."""

import sys
from collections.abc import Iterator

from evaluator.core.policy.decide import Decisions

_COLUMNS = 20
"""Columns freed with one step: the arrays of a column take some microseconds each."""


_UNUSED = 3
"""References to decisions that only a list holds, as counted below: the list, the loop's variable, the argument."""


def unused(replaced: list[Decisions]) -> list[Decisions]:
    """Remove from the list, and return, the decisions that nothing else refers to.

    Pages and controllers use decisions for a while after they were replaced. Those are freed with a later evaluation: if
    the page had the last reference, they would be freed at once.
    """
    free: list[Decisions] = []
    kept: list[Decisions] = []
    for decisions in replaced:
        (free if sys.getrefcount(decisions) <= _UNUSED else kept).append(decisions)
    replaced[:] = kept
    return free


def release(held: list[Decisions]) -> Iterator[None]:
    """Empty the list, and free its decisions: one policy, or some columns, with each step.

    The list must hold the last references: parts that other objects use are freed with those.
    """
    policies = [one for decisions in held for one in decisions.policies.values()]
    columns = [one for decisions in held for one in decisions.table.prepared.values()]
    readings = [one for decisions in held for one in decisions.table.columns.values()]
    held.clear()
    while policies:
        policies.pop()
        yield
    while columns or readings:
        del columns[-_COLUMNS:]
        del readings[-_COLUMNS:]
        yield
