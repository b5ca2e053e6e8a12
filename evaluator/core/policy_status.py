"""What features add to the status of a policy: problems, conditions, Events, and the effects of enforcing it.

A feature contributes parts, other features show them: neither imports the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evaluator.core.model.events import EventSpec
from evaluator.core.page_fields import EnforcementFields
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from plimsoll.text import counted

_NAMED = 5
"""Nodes that a message names; the others are counted."""


@dataclass(frozen=True, slots=True)
class PolicyCondition:
    """One condition of a policy's status, without its transition time, so that equal conditions need no write."""

    type: str
    status: str
    reason: str
    message: str

    def body(self, since: str, generation: int) -> dict[str, Any]:
        """Return the condition as a JSON object; `since` is RFC 3339."""
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since,
            "observedGeneration": generation,
        }


class Episode(NamedTuple):
    """A state of a policy that one Event reports when it begins, and another when it ends.

    `condition`: the type of the condition that is True meanwhile, by which a new process knows what was reported.
    """

    condition: str
    began: EventSpec
    ended: EventSpec


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """What a feature adds to the status and the Events of a policy.

    `problems` are constant sentences, each also an Event; the text of `varying_problems` names nodes or readings, so one
    Event stands for all of them. `warnings`: constant sentences about valid parts, each also an Event. `episodes`: whether
    each is going on.
    """

    problems: tuple[str, ...] = ()
    varying_problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    conditions: tuple[PolicyCondition, ...] = ()
    episodes: Mapping[Episode, bool] = field(default_factory=dict)


PartsOf = Callable[[Decision], Iterable[PolicyPart]]
"""Returns what features add to the status of a policy."""


def no_parts(_decision: Decision) -> tuple[PolicyPart, ...]:
    """Return nothing: no feature adds to statuses."""
    return ()


class Effect(NamedTuple):
    """What enforcing a policy changes: the field of it in /explain, a phrase for the status, and the nodes or pods."""

    field: str
    phrase: str
    names: Sequence[str]


class Effects:
    """What a feature changes by enforcing a policy; this class itself: nothing."""

    def catching_up(self, decisions: Decisions) -> Iterator[None]:
        """Bring what `effects` needs up to date, in steps."""
        yield from ()

    def effects(self, decision: Decision, table: MetricTable) -> Iterator[Effect]:
        """Yield the effects of enforcing a policy now."""
        yield from ()

    def flags(self) -> EnforcementFields | None:
        """Return what /explain says about the feature's flags."""
        return None


def listed(names: Sequence[str], total: int) -> str:
    """Return `2 of 3 nodes (a, b)`; long lists are cut."""
    shown = ", ".join(names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} of {counted(total, 'node')} ({shown}{more})"
