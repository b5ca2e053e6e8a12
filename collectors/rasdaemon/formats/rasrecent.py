"""Memory errors of the last 24 hours recorded by rasdaemon: uncorrected ones, and corrected ones per page.

rasdaemon's records have timestamps, so errors before a boot or before the agent started count too.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from collectors.rasdaemon.formats.rasrecords import Value

DAY = 86_400
"""Seconds for which an error counts."""
PAGE = 4096
_CORRECTED, _NO_ERROR = "Corrected", "Info"
_MINUTE = 60
_MOST = 20_000
"""Maximum pages and minutes to keep; a machine with more errors is already detected by these."""


class Event(NamedTuple):
    """A row of rasdaemon's table of memory errors; fields may have any SQLite type."""

    timestamp: Value
    """In rasdaemon's format: 2026-03-01 04:05:06 +0000."""
    type: Value
    address: Value
    amount: int


def earliest(now: float) -> str:
    """Return a date before which no timestamp is within 24 hours in any time zone, for text comparison."""
    return f"{datetime.fromtimestamp(now - 3 * DAY, UTC):%Y-%m-%d}"


class RecentErrors:
    """Errors by page and minute, dropped after a day."""

    def __init__(self) -> None:
        self.known = False
        """Whether a table of them exists: without one, zero errors is not known."""
        self._of_pages: dict[tuple[int, int], int] = {}
        self._uncorrected: dict[int, int] = {}

    def add(self, events: Iterable[Event], now: float) -> None:
        """Add rows. A row without a time is ignored; one in the future counts as now, since clocks are corrected."""
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
        """Return the number of uncorrected errors, with a resolution of a minute."""
        since = _since(now)
        self._uncorrected = {at: n for at, n in self._uncorrected.items() if at >= since}
        return sum(self._uncorrected.values())

    def worst_page(self, now: float) -> int:
        """Return the number of corrected errors of the page with the most."""
        since = _since(now)
        self._of_pages = {key: n for key, n in self._of_pages.items() if key[1] >= since}
        pages: dict[int, int] = {}
        for (page, _), amount in self._of_pages.items():
            pages[page] = pages.get(page, 0) + amount
        return max(pages.values(), default=0)


def _since(now: float) -> int:
    return int(now - DAY) // _MINUTE


def _seconds(timestamp: Value) -> float | None:
    """Return a timestamp as Unix time; None if it is invalid."""
    if not isinstance(timestamp, str):
        return None
    try:
        return datetime.strptime(timestamp, "%Y-%m-%d %H:%M:%S %z").timestamp()
    except (ValueError, OverflowError):
        return None
