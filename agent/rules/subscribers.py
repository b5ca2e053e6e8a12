"""Subscribers to recorded metrics, with the values last sent to each: a notable change is sent at once."""

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from threading import Lock

from agent.metric_names import candidates
from agent.rules.groups.results import Numbers, is_notable


@dataclass(slots=True)
class _Subscriber:
    metrics: frozenset[str]
    told: Numbers = field(default_factory=dict)
    changes: int = 0


class Subscribers:
    """Subscriptions by subscriber. Any thread may call its methods. `share`: relative change of a value that is notable."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._followers: dict[Hashable, _Subscriber] = {}
        self._lock = Lock()

    def subscribe(self, who: Hashable, metrics: Collection[str]) -> None:
        """Subscribe to these metrics, by their names in policies, replacing the subscriber's earlier ones."""
        names = frozenset(name for metric in metrics for name in candidates(metric))
        with self._lock:
            self._followers[who] = _Subscriber(names)

    def forget(self, who: Hashable) -> None:
        """Remove a subscriber."""
        with self._lock:
            self._followers.pop(who, None)

    @property
    def metrics(self) -> frozenset[str]:
        """Return all metrics with a subscriber."""
        with self._lock:
            return frozenset[str]().union(*(f.metrics for f in self._followers.values()))

    def sent(self, who: Hashable, now: Numbers) -> None:
        """Record the values sent to a subscriber."""
        with self._lock:
            if (follower := self._followers.get(who)) is not None:
                follower.told = now

    def following(self, who: Hashable, now: Numbers) -> int:
        """Return how many notable changes a subscriber has had, as of `now`."""
        with self._lock:
            follower = self._followers.get(who)
            if follower is None:
                return 0
            if follower.told is not now and is_notable(
                follower.told, now, follower.metrics, self._share
            ):
                follower.told = now
                follower.changes += 1
            return follower.changes
