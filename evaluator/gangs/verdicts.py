"""What is decided of gangs: how each stands, in words for people, and which gates to lift. Times are Unix seconds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from evaluator.gangs.group import GangKey
from evaluator.inventory import Resident


class State(StrEnum):
    """How a gang stands."""

    INCOMPLETE = "Incomplete"
    """Fewer of its pods exist than it needs."""
    GATED_BY_OTHERS = "GatedByOthers"
    """Gates of others hold so many of its pods that too few could go."""
    WAITS_FOR_TURN = "WaitsForTurn"
    """Others go first."""
    WAITS_FOR_ROOM = "WaitsForRoom"
    """The nodes that it may go to have not enough room now."""
    TOO_LARGE = "TooLarge"
    """They would not have, were they empty."""
    RELEASED = "Released"
    """Its gates are lifted, and kube-scheduler is about to find nodes."""
    TIMED_OUT = "TimedOut"
    """Its gates are lifted, and kube-scheduler has not found nodes for all in time."""
    SCHEDULED = "Scheduled"
    """All of its pods have nodes."""

    @property
    def waits(self) -> bool:
        """Whether a gate of ours holds pods of it."""
        return self not in {State.RELEASED, State.TIMED_OUT, State.SCHEDULED}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a gang stands. `message` says the same as long as nothing changed: it has no times in it."""

    state: State
    message: str
    since: float
    """When it began to wait: the age of its oldest pod."""
    problems: tuple[str, ...] = ()


class Reason(StrEnum):
    """Why gates are lifted."""

    ADMITTED = "admitted"
    """The gang is complete, fits, and it is its turn."""
    REPLACEMENT = "replacement"
    """Its gang was admitted before."""
    OVERDUE = "overdue"
    """It has been held for longer than --gateMaxAge."""


@dataclass(frozen=True, slots=True)
class Release:
    """Gates to lift now. One gang's, for one reason."""

    gang: GangKey
    reason: Reason
    pods: tuple[Resident, ...]


class Turn(NamedTuple):
    """What is remembered of a gang that had its turn, and was not placed in it."""

    began: float
    """When room was first kept for it in this turn."""
    misses: int = 0
    """Turns that ended so, in a row."""
    rests_until: float = -math.inf
    """Until then it is passed over."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What one decision has to know of those before it. A leader begins with none of it."""

    admitted: Mapping[GangKey, frozenset[str]] = field(default_factory=dict)
    """The uids of the owners whose pods were admitted as this gang; empty for pods without an owner."""
    turns: Mapping[GangKey, Turn] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Terms:
    """The numbers that are flags, in seconds."""

    timeout: float = 60.0
    backoff: float = 10.0
    longest_backoff: float = 300.0
    ageing: float = 300.0
    gate_max_age: float = math.inf


@dataclass(frozen=True, slots=True)
class Outcome:
    """One decision. `again` is when time alone changes it."""

    verdicts: Mapping[GangKey, Verdict] = field(default_factory=dict)
    releases: tuple[Release, ...] = ()
    timeouts: tuple[GangKey, ...] = ()
    """Gangs whose turn has just ended without all of their pods having nodes."""
    memory: Memory = field(default_factory=Memory)
    again: float = math.inf
