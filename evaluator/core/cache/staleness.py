"""Tracks when each watch last received anything; the cache of a silent watch is stale."""

from collections.abc import Iterable


class WatchStaleness:
    """The last activity of each watch by kind (seconds, monotonic).

    A kind without any activity is missing, not stale.
    """

    def __init__(self, kinds: Iterable[str], *, bound: float) -> None:
        self._bound = bound
        self._last_seen: dict[str, float | None] = dict.fromkeys(kinds)

    def observed(self, kind: str, at: float) -> bool:
        """Record activity, including bookmarks; return whether the kind was stale before."""
        before = self._last_seen[kind]
        self._last_seen[kind] = at
        return before is not None and at - before > self._bound

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are watched, or could be."""
        return tuple(self._last_seen)

    def is_stale(self, kind: str, now: float) -> bool:
        """Return whether the last activity of a kind was too long ago."""
        at = self._last_seen[kind]
        return at is not None and now - at > self._bound

    def age(self, kind: str, now: float) -> float | None:
        """Return the seconds since the last activity; None if there was none."""
        at = self._last_seen[kind]
        return None if at is None else now - at

    def stale(self, now: float) -> list[str]:
        """Return a message for each stale kind."""
        return [
            f"updates of {kind} from the API server (none for {now - at:.0f} s)"
            for kind, at in self._last_seen.items()
            if at is not None and self.is_stale(kind, now)
        ]
