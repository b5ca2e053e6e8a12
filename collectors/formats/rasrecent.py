"""Memory errors of the last 24 hours, out of what rasdaemon recorded: those not corrected, and the corrected ones of each page.

What rasdaemon wrote down has its time with it, so this also tells of the time before a boot and before the agent started.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from collectors.formats.rasrecords import Value

DAY = 86_400
"""Seconds that an error counts for."""
PAGE = 4096
_CORRECTED, _NO_ERROR = "Corrected", "Info"
_MINUTE = 60
_MOST = 20_000
"""Pages and minutes to remember; a machine with more errors than that has long been found out by the first of them."""


class Event(NamedTuple):
    """A row of rasdaemon's table of memory errors; each field may be anything that SQLite can hold."""

    timestamp: Value
    """As rasdaemon writes it: 2026-03-01 04:05:06 +0000."""
    type: Value
    address: Value
    amount: int


def earliest(now: float) -> str:
    """A day in front of which no time stamp is of the last 24 hours, in whatever time zone, to compare as text."""
    return f"{datetime.fromtimestamp(now - 3 * DAY, UTC):%Y-%m-%d}"


class RecentErrors:
    """The errors by page and minute. They are forgotten when they are a day old."""

    def __init__(self) -> None:
        self.known = False
        """Whether there is a table that tells of them: without one, none seen is not none."""
        self._of_pages: dict[tuple[int, int], int] = {}
        self._uncorrected: dict[int, int] = {}

    def add(self, events: Iterable[Event], now: float) -> None:
        """Take in new rows. A row without a time counts for none; one from the future is of now, as clocks get corrected."""
        for event in events:
            at = _seconds(event.timestamp)
            if at is None or at <= now - DAY or event.type == _NO_ERROR:
                continue
            minute = int(min(at, now)) // _MINUTE
            if event.type != _CORRECTED:
                self._uncorrected[minute] = self._uncorrected.get(minute, 0) + event.amount
            elif isinstance(event.address, int) and event.address:
                key = (event.address // PAGE, minute)
                if key in self._of_pages or len(self._of_pages) < _MOST:
                    self._of_pages[key] = self._of_pages.get(key, 0) + event.amount

    def uncorrected(self, now: float) -> int:
        """Errors that were not corrected; to the minute."""
        since = _since(now)
        self._uncorrected = {at: n for at, n in self._uncorrected.items() if at >= since}
        return sum(self._uncorrected.values())

    def worst_page(self, now: float) -> int:
        """Corrected errors of the page that has the most."""
        since = _since(now)
        self._of_pages = {key: n for key, n in self._of_pages.items() if key[1] >= since}
        pages: dict[int, int] = {}
        for (page, _), amount in self._of_pages.items():
            pages[page] = pages.get(page, 0) + amount
        return max(pages.values(), default=0)


def _since(now: float) -> int:
    return int(now - DAY) // _MINUTE


def _seconds(timestamp: Value) -> float | None:
    """Unix time of a time stamp; None if it is none."""
    if not isinstance(timestamp, str):
        return None
    try:
        return datetime.strptime(timestamp, "%Y-%m-%d %H:%M:%S %z").timestamp()
    except (ValueError, OverflowError):
        return None
