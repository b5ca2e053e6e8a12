"""Which gates to lift now, and what to tell of those that stay. No I/O, no clock, no chance but what is passed in."""

from collections.abc import Callable, Iterable

from evaluator.gangs.group import Gang
from evaluator.gangs.space import Space
from evaluator.gangs.verdicts import Memory, Outcome, Terms


def decide(
    gangs: Iterable[Gang],
    space: Space,
    before: Memory,
    terms: Terms,
    *,
    now: float,
    random: Callable[[], float],
) -> Outcome:
    """What follows for some gangs, by the room that there is, and by what was decided before."""
    raise NotImplementedError
