"""Which of the due groups are evaluated in one step: costly ones take turns, so that the others keep their interval."""

import itertools
from collections.abc import Sequence

from agent.rules.groups import dependencies
from agent.rules.groups.members import Member, Members, Part
from agent.rules.groups.tick import FamiliesByMetric

LONGEST_STEP = 0.25
"""Seconds of processor time after which the other due groups are left to the next step."""
_SAMPLE_SECONDS = 1e-5
"""Estimated processor time of a group's first evaluation, for each collected sample that it may need."""


def ordered(due: Sequence[Part], members: Members, families: FamiliesByMetric) -> Sequence[Part]:
    """Return due groups in the order of their evaluation.

    That is `due`, where groups follow those that they depend on, unless these take longer than a step: then first the cheapest
    ones, which together take at most half of it, and of the others those first that were evaluated the longest ago.
    """
    costs = {part: _cost(members[part], families) for part in due}
    if sum(costs.values()) <= LONGEST_STEP:
        return due
    cheapest = sorted(due, key=lambda part: costs[part])
    sums = itertools.accumulate(costs[part] for part in cheapest)
    light = {part for part, total in zip(cheapest, sums, strict=True) if total <= LONGEST_STEP / 2}
    costly = [part for part in due if part not in light]
    costly.sort(key=lambda part: members[part].timestamp or 0.0)
    return [*(part for part in due if part in light), *costly]


def _cost(member: Member, families: FamiliesByMetric) -> float:
    """Return the processor seconds of the last evaluation, or an estimate."""
    if member.timestamp is not None:
        return member.cost
    names = {need.selector.metric for need in dependencies.needs(member.running.group)}
    needed = families.keys() if "" in names else names & families.keys()
    return _SAMPLE_SECONDS * sum(len(f.samples) for name in needed for f in families[name])
