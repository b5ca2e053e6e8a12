"""Counts and logs the parts of sources that collectors left out (`collectors/interface/guard.py`)."""

from collections.abc import Iterable, Sequence
from threading import Lock

from collectors.interface.guard import Skipped
from collectors.interface.metric import Table
from collectors.interface.sample import Family
from plimsoll import logs
from plimsoll.text import one_line

_HOUR = 3600.0
_MOST_KINDS = 500
_MOST_FAMILIES = 20
"""Sets of collectors whose family is kept: those of scrapes, and of rules."""
_METRIC = "node_scrape_collector_skipped_total"
_LONGEST = 300
"""Characters of a reason that are logged."""

log = logs.get(__name__)


class SkipLog:
    """Counts by collector, and one warning an hour for each kind. Any thread may call its methods."""

    def __init__(self, collectors: Iterable[str]) -> None:
        self._counts = dict.fromkeys(collectors, 0)
        self._logged: dict[tuple[str, str], float] = {}
        self._families: dict[tuple[str, ...], Family] = {}
        self._lock = Lock()

    def note(self, collector: str, skipped: Sequence[Skipped], now: float) -> None:
        """Count and log what a run left out. Reasons with the same text before the first colon are of one kind: one is logged."""
        reasons_by_kind: dict[str, list[str]] = {}
        for part in skipped:
            reasons_by_kind.setdefault(part.reason.partition(": ")[0], []).append(part.reason)
        with self._lock:
            self._counts[collector] += len(skipped)
            self._families.clear()
            due = [kind for kind in reasons_by_kind if self._is_due((collector, kind), now)]
        for kind in due:
            reasons = reasons_by_kind[kind]
            log.warning(
                "collector left out what it cannot read",
                collector=collector,
                reason=one_line(reasons[0], _LONGEST),
                parts=len(reasons),
            )

    def _is_due(self, kind: tuple[str, str], now: float) -> bool:
        logged = self._logged.get(kind)
        if logged is not None and now - logged < _HOUR:
            return False
        self._logged.pop(kind, None)
        self._logged[kind] = now
        if len(self._logged) > _MOST_KINDS:
            del self._logged[next(iter(self._logged))]
        return True

    def family(self, collectors: tuple[str, ...], table: Table) -> Family:
        """Return the counts of these collectors; the same family while none changes, as in most scrapes."""
        found = self._families.get(collectors)
        if found is None:
            with self._lock:
                rows = [((name,), float(self._counts[name])) for name in collectors]
                if len(self._families) >= _MOST_FAMILIES:
                    self._families.clear()
                found = self._families[collectors] = table.family(_METRIC, rows)
        return found
