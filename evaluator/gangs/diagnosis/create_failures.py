"""What controllers tell of pods that they could not make, in the words of the API server. No I/O."""

import re
from collections.abc import Iterable

import msgspec

from plimsoll.text import one_line

_FAILED = frozenset({"FailedCreate", "FailedCreatePod"})
_MADE = frozenset({"SuccessfulCreate", "SuccessfulCreatePod"})
"""Reasons of events on a controller: those of Kubernetes' own, and of many an operator."""

# What comes before the words names the pod that was to be, another one at each attempt.
_PROLOGUE = re.compile(
    r"(?:\(combined from similar events\): )?"
    r"(?:Error creating: |[Cc]reate Pod \S+ in StatefulSet \S+ failed error: )?"
    r"(?:[Pp]ods? \"[^\"]*\" is (?:forbidden|invalid): )?"
)


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: str | None = None


class Event(msgspec.Struct, rename="camel"):
    """core/v1 Event: what was told, and when last. Times are RFC 3339."""

    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None

    @property
    def at(self) -> str:
        """When it was told last; to the second, so that times of both sorts compare as texts."""
        told = (self.series and self.series.last_observed_time) or self.last_timestamp
        return (told or self.event_time or "")[: len("2006-01-02T15:04:05")]


def last_word(events: Iterable[Event]) -> str:
    """Why a controller could not make the pod that it tried to make last; empty where it could since, or nobody told."""
    told = list(events)
    failed = max((one for one in told if one.reason in _FAILED), key=_at, default=None)
    made = max((one.at for one in told if one.reason in _MADE), default="")
    if failed is None or failed.at < made:
        return ""
    return reason(failed.message)


def reason(message: str) -> str:
    """The API server's words, without the name of the pod."""
    return one_line(_PROLOGUE.sub("", message, count=1))


def _at(event: Event) -> str:
    return event.at
