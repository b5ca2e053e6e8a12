"""Times in the layouts of Go's package time, in which node-problem-detector's `filelog` monitors describe their logs.

The reference time is Mon Jan 2 15:04:05 MST 2006. Supported are numbers, names of months and days, fractions of seconds and
offsets; of named zones only UTC and GMT.
"""

import contextlib
import re
from datetime import UTC, datetime, timedelta, timezone

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_OFFSET = r"(?P<offset>[+-]\d\d:?\d\d)"
_PARTS = {
    "2006": r"(?P<year>\d{4})",
    "January": r"(?P<name>[A-Za-z]{3,9})",
    "Jan": r"(?P<name>[A-Za-z]{3})",
    "01": r"(?P<month>\d\d)",
    "Monday": r"[A-Za-z]{6,9}",
    "Mon": r"[A-Za-z]{3}",
    "02": r"(?P<day>\d\d)",
    "_2": r"(?P<day> ?\d{1,2})",
    "15": r"(?P<hour>\d\d)",
    "04": r"(?P<minute>\d\d)",
    "05": r"(?P<second>\d\d)(?P<fraction>[.,]\d{1,9})?",
    "MST": r"(?P<zone>UTC|GMT)",
    "Z07:00": rf"(?:(?P<zone>Z)|{_OFFSET})",
    "Z0700": rf"(?:(?P<zone>Z)|{_OFFSET})",
    "-07:00": _OFFSET,
    "-0700": _OFFSET,
}
_AHEAD = timedelta(days=1)
"""What may be ahead of now: clocks differ, and so do zones that a log does not name."""
_FRACTION = re.compile(r"[.,](?:0{1,9}|9{1,9})(?!\d)")
_TOKEN = re.compile("|".join(map(re.escape, sorted(_PARTS, key=len, reverse=True))))


class LayoutError(ValueError):
    """A layout with something else, or without a time."""


class Layout:
    """A layout, compiled."""

    def __init__(self, text: str) -> None:
        """Raises LayoutError."""
        # Go accepts a fraction after the seconds whether the layout has one or not.
        rest = re.sub(r"(?<=05)" + _FRACTION.pattern, "", text)
        pattern, end = "", 0
        for token in _TOKEN.finditer(rest):
            pattern += re.escape(rest[end : token.start()]) + _PARTS[token.group()]
            end = token.end()
        try:
            self._pattern = re.compile(pattern + re.escape(rest[end:]))
        except re.error as error:
            raise LayoutError(f"timestampFormat {text[:80]!r} has a part twice") from error
        if missing := {"hour", "minute", "second", "day"} - self._pattern.groupindex.keys():
            raise LayoutError(f"timestampFormat {text[:80]!r} has no {', '.join(sorted(missing))}")

    def parse(self, text: str, now: datetime) -> float:
        """Return a time as Unix seconds; without a year the last one up to a day from `now`, without an offset in `now`'s zone. Raises ValueError."""
        found = self._pattern.fullmatch(text)
        if found is None:
            raise ValueError(f"not a time of the layout: {text[:80]!r}")
        parts = found.groupdict()
        month = _month(parts)
        zone = _zone(parts.get("offset"), parts.get("zone"), now)
        # A log without years, read in November, has lines of last December; a leap day may be four years old.
        years = [int(parts["year"])] if parts.get("year") else range(now.year + 1, now.year - 9, -1)
        for year in years:
            with contextlib.suppress(ValueError):
                time = datetime(
                    year,
                    month,
                    int(parts["day"]),
                    int(parts["hour"]),
                    int(parts["minute"]),
                    min(int(parts["second"]), 59),
                    tzinfo=zone,
                )
                if time - now <= _AHEAD:
                    return time.timestamp() + float(f"0.{(parts.get('fraction') or '.0')[1:]}")
        raise ValueError(f"no time up to a day from now: {text[:80]!r}")


def _month(parts: dict[str, str | None]) -> int:
    if (name := parts.get("name")) is not None:
        if name[:3].lower() not in _MONTHS:
            raise ValueError(f"not a month: {name}")
        return _MONTHS.index(name[:3].lower()) + 1
    return int(parts.get("month") or 1)


def _zone(offset: str | None, name: str | None, now: datetime) -> timezone:
    if offset:
        sign = -1 if offset[0] == "-" else 1
        return timezone(sign * timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:])))
    if name:
        return UTC
    return timezone(now.utcoffset() or timedelta())
