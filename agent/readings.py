"""What one stream reads of this node: collected metrics, and recorded ones beside them."""

from collections.abc import Hashable, Sequence

from agent.names import candidates
from agent.recorded import Recorded
from agent.rounds import Rounds
from agent.selection import select
from wire.codec import Snapshot


class Readings:
    """For one stream. Blocking where it reads; one call at a time."""

    def __init__(self, rounds: Rounds, recorded: Recorded | None = None) -> None:
        self._rounds = rounds
        self._recorded = recorded

    def want(self, metrics: Sequence[str]) -> None:
        """These are read from now on."""
        if self._recorded is not None:
            self._recorded.subscribe(self, metrics)

    def close(self) -> None:
        """Nothing is read any longer."""
        if self._recorded is not None:
            self._recorded.forget(self)

    def fingerprint(self) -> Hashable:
        """Changes when there is something to report at once."""
        seen = self._rounds.fingerprint()
        return seen if self._recorded is None else (seen, self._recorded.following(self))

    def read(self, metrics: Sequence[str]) -> Snapshot:
        """Run just the collectors that can know these metrics."""
        found = self._rounds.run(self._rounds.serving(metrics))
        families = found.families
        unread: set[str] = set()
        if found.failed:
            unread = {m for m in metrics if found.failed & self._rounds.serving([m])}
        if self._recorded is not None:
            self._recorded.sent(self)
            families = (*families, *self._recorded.beside(families))
            unknown = frozenset(self._recorded.unread())
            unread |= {m for m in metrics if not unknown.isdisjoint(candidates(m))}
        return select(families, metrics, unread)
