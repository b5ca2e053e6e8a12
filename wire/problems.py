"""Problems of a node, as agents report them. Imports no protobuf: an agent without a stream saves its memory."""

import re
from typing import NamedTuple

MOST_CONDITIONS, MOST_EVENTS = 32, 20
"""Conditions and events in one report."""
MOST_BYTES = 12 << 10
"""Bytes of all their text."""
MOST_TIMES = 1_000_000
"""The most times that an event occurred between two reports; more count as this many."""
LONGEST_NAME, LONGEST = 200, 300
"""Characters of a source, and of a message."""
TYPE = re.compile(
    r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII
)
"""Of a node condition."""
REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?", re.ASCII)


class ProblemCondition(NamedTuple):
    """A permanent problem, which the node has (`active`) or not."""

    type: str
    active: bool
    reason: str
    message: str
    since: float
    """Unix seconds of the last transition; 0 if there was none since boot."""


class ProblemEvent(NamedTuple):
    """A temporary problem, or the begin of a permanent one; it occurred `times` times since it was reported last."""

    source: str
    reason: str
    message: str
    times: int


class Problems(NamedTuple):
    """The conditions of a node, and what happened since the last report."""

    conditions: tuple[ProblemCondition, ...] = ()
    events: tuple[ProblemEvent, ...] = ()


NONE = Problems()
