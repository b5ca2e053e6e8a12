"""Why controllers failed to create pods: the API server's messages, from the controllers' events. No I/O."""

import re
from collections.abc import Iterable

import msgspec

from plimsoll.text import one_line

_FAILED = frozenset({"FailedCreate", "FailedCreatePod"})
_CREATED = frozenset({"SuccessfulCreate", "SuccessfulCreatePod"})
"""Event reasons of Kubernetes' own controllers, and of many operators."""

# The prefix names the rejected pod; each attempt has a new name.
_PREFIX = re.compile(
    r"(?:\(combined from similar events\): )?"
    r"(?:Error creating: |[Cc]reate Pod \S+ in StatefulSet \S+ failed error: )?"
    r"(?:[Pp]ods? \"[^\"]*\" is (?:forbidden|invalid): )?"
)


class EventSeries(msgspec.Struct, rename="camel"):
    """core/v1 EventSeries."""

    last_observed_time: str | None = None


class ControllerEvent(msgspec.Struct, rename="camel"):
    """core/v1 Event about a controller. Times are RFC 3339."""

    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None

    @property
    def last_seen(self) -> str:
        """When it last occurred, cut to the second, so that MicroTime and Time compare as texts."""
        time = (self.series and self.series.last_observed_time) or self.last_timestamp
        return (time or self.event_time or "")[: len("2006-01-02T15:04:05")]


def last_failure(events: Iterable[ControllerEvent]) -> str:
    """Return the error of a controller's last attempt to create a pod; empty if it succeeded since."""
    known = list(events)
    failed = max(
        (event for event in known if event.reason in _FAILED), key=_last_seen, default=None
    )
    created = max((event.last_seen for event in known if event.reason in _CREATED), default="")
    if failed is None or failed.last_seen < created:
        return ""
    return reason(failed.message)


def reason(message: str) -> str:
    """Return the API server's message without the name of the pod, in one line."""
    return one_line(_PREFIX.sub("", message, count=1))


def _last_seen(event: ControllerEvent) -> str:
    return event.last_seen
