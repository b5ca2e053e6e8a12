"""Subscribers to recorded metrics, with the values last sent to each: they are notified of notable changes."""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from threading import Lock

from agent.metric_names import possible
from agent.rules.groups.results import Published, is_notable


@dataclass(slots=True)
class _Subscriber:
    metrics: frozenset[str]
    on_change: Callable[[], None]
    last_sent: Published = field(default_factory=Published)


class Subscribers:
    """Subscriptions by subscriber. Any thread may call its methods. `share`: relative change of a value that is notable."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._subscribers: dict[Hashable, _Subscriber] = {}
        self._lock = Lock()

    def subscribe(
        self, subscriber: Hashable, metrics: Collection[str], on_change: Callable[[], None]
    ) -> None:
        """Subscribe to these metrics, by their names in policies, replacing the subscriber's earlier ones."""
        names = frozenset(name for metric in metrics for name in possible(metric))
        with self._lock:
            self._subscribers[subscriber] = _Subscriber(names, on_change)

    def forget(self, subscriber: Hashable) -> None:
        """Remove a subscriber."""
        with self._lock:
            self._subscribers.pop(subscriber, None)

    @property
    def metrics(self) -> frozenset[str]:
        """Return all metrics with a subscriber."""
        with self._lock:
            return frozenset[str]().union(*(f.metrics for f in self._subscribers.values()))

    def sent(self, subscriber: Hashable, now: Published) -> None:
        """Record the values sent to a subscriber."""
        with self._lock:
            if (subscription := self._subscribers.get(subscriber)) is not None:
                subscription.last_sent = now

    def notify(self, now: Published) -> None:
        """Call each subscriber with a notable change, as of `now`, since the values last sent to it or notified of."""
        with self._lock:
            moved = [
                subscriber
                for subscriber in self._subscribers.values()
                if self._has_moved(subscriber, now)
            ]
            for subscription in moved:
                subscription.last_sent = now
        for subscription in moved:
            subscription.on_change()

    def _has_moved(self, subscription: _Subscriber, now: Published) -> bool:
        before, metrics = subscription.last_sent, subscription.metrics
        if before is now:
            return False
        # An unread metric keeps its last reading at the evaluator; only a report that lacks it ends that.
        gone = before.unread - now.unread - now.results.keys()
        return not metrics.isdisjoint(gone) or is_notable(
            before.results, now.results, metrics, self._share
        )
