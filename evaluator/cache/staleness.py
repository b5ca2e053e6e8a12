"""Tracks when each watch last received anything; a silent watch makes its cache stale."""

from collections.abc import Iterable


class WatchStaleness:
    """Kinds of objects, and when their watch was last alive (seconds, monotonic).

    A kind that was never heard of is missing, which is another matter, and not stale.
    """

    def __init__(self, kinds: Iterable[str], *, bound: float) -> None:
        self._bound = bound
        self._heard: dict[str, float | None] = dict.fromkeys(kinds)

    def observed(self, kind: str, at: float) -> bool:
        """The API server said something of this kind, if only that there is nothing new; whether it was stale before."""
        before = self._heard[kind]
        self._heard[kind] = at
        return before is not None and at - before > self._bound

    def age(self, kind: str, now: float) -> float | None:
        """Seconds since it was last heard of; None if it never was."""
        at = self._heard[kind]
        return None if at is None else now - at

    def stale(self, now: float) -> list[str]:
        """For each stale kind, what is waited for."""
        return [
            f"news of {kind} from the API server (none for {now - at:.0f} s)"
            for kind, at in self._heard.items()
            if at is not None and now - at > self._bound
        ]
