"""What one stream reads of this node: collected metrics, and recorded ones beside them."""

from collections.abc import Hashable, Sequence

from agent.metric_names import candidates
from agent.rule_results import RuleResults
from agent.scrape.runner import CollectorRunner
from agent.stream.selection import select
from wire.codec import Snapshot


class SnapshotReader:
    """For one stream. Blocking where it reads; one call at a time."""

    def __init__(self, rounds: CollectorRunner, recorded: RuleResults | None = None) -> None:
        self._rounds = rounds
        self._recorded = recorded
        self._own: frozenset[str] = (
            frozenset()
        )  # metrics that were collected when they could be last read

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
        unread: set[str] = set()
        if found.failed:
            unread = {m for m in metrics if found.failed & self._rounds.serving([m])}
        collected = select(found.families, metrics, unread)
        if self._recorded is None:
            return collected
        # A recorded value must not step in for an operator's word that cannot be read at the moment.
        held = collected.unread & self._own
        self._own = held.union(collected.values, collected.several)
        left = [metric for metric in metrics if metric not in self._own]
        self._recorded.sent(self)
        unknown = collected.unread | self._unknown(left)
        recorded = select(self._recorded.beside(found.families), left, unknown)
        return Snapshot(
            {**collected.values, **recorded.values},
            {**collected.several, **recorded.several},
            recorded.unread | held,
        )

    def _unknown(self, metrics: Sequence[str]) -> frozenset[str]:
        """Of these, what rules would record and of which nothing is known."""
        assert self._recorded is not None
        unread = frozenset(self._recorded.unread())
        return frozenset(m for m in metrics if not unread.isdisjoint(candidates(m)))
