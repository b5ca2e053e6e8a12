"""Who follows which recorded metrics, and what each was told last: a value is worth saying at once if it moved notably since."""

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
    """Any thread may call any method. `share`: what part of itself a value has to move by."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._followers: dict[Hashable, _Subscriber] = {}
        self._lock = Lock()

    def subscribe(self, who: Hashable, metrics: Collection[str]) -> None:
        """Somebody wants these metrics, in place of those before; as policies name them."""
        names = frozenset(name for metric in metrics for name in candidates(metric))
        with self._lock:
            self._followers[who] = _Subscriber(names)

    def forget(self, who: Hashable) -> None:
        """Somebody wants nothing any longer."""
        with self._lock:
            self._followers.pop(who, None)

    @property
    def metrics(self) -> frozenset[str]:
        """What anybody wants."""
        with self._lock:
            return frozenset[str]().union(*(f.metrics for f in self._followers.values()))

    def sent(self, who: Hashable, now: Numbers) -> None:
        """Somebody is told this."""
        with self._lock:
            if (follower := self._followers.get(who)) is not None:
                follower.told = now

    def following(self, who: Hashable, now: Numbers) -> int:
        """How many times there was news for somebody, as of now."""
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
