"""What happened to evictions: how many there were, which pods were refused, and which came back. Pure.

Times are seconds of one monotonic clock, so that no step of the wall clock frees or blocks anything.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod
from evaluator.core.policy.decide import Decision
from plimsoll.backoff import Backoff

HOUR = 3600.0
_FIRST, _LONGEST = 5.0, 60.0
"""Seconds that a pod rests after its first refusal, and at most: a budget may permit an eviction at any time."""
_RETURNED = (60.0, 300.0, 1500.0)
"""Seconds until a pod leaves that came back to a node, for the first, second and every further time."""
_REMEMBERED = 600.0
"""Seconds after its rest for which a pod's refusals count that was not tried again."""
_DOUBT = 90.0
"""Seconds after which a request that was not answered is not carried out any more; kube-apiserver's limit is 60."""
_STUBBORN = 3
"""Refusals in a row after which a pod is tried after all others."""


class Refusal(NamedTuple):
    """A refusal of the API server. `until`: when the pod may be tried again. `why`: a phrase about one pod or several."""

    until: float
    why: str


@dataclass(slots=True)
class _Refused:
    """The refusals of one pod, in a row."""

    backoff: Backoff
    last: Refusal
    times: int = 0


class Place(NamedTuple):
    """A node of a policy with pods of an owner, by its UID."""

    policy: PolicyKey
    node: str
    owner: str


@dataclass(slots=True)
class Left:
    """What left a place while one violation lasts. `originals`: the UIDs of the pods there when the first one left."""

    originals: Set[str]
    at: float
    times: int = 1


class _Doubt(NamedTuple):
    """An eviction that may have happened: the API server did not answer."""

    policy: PolicyKey
    at: float


@dataclass(slots=True)
class EvictionHistory:
    """Evictions of all policies. `random` returns a float in [0, 1), for jitter."""

    random: Callable[[], float] = lambda: 1.0
    _done: dict[PolicyKey, deque[float]] = field(default_factory=dict)
    _tried: dict[PolicyKey, deque[float]] = field(default_factory=dict)
    _refused: dict[str, _Refused] = field(default_factory=dict)
    _owners: dict[str, Refusal] = field(default_factory=dict)
    _doubtful: dict[str, _Doubt] = field(default_factory=dict)
    _used_up_until: float = 0.0
    _left: dict[Place, Left] = field(default_factory=dict)

    def done(self, policy: PolicyKey, since: float) -> list[float]:
        """Return the times of a policy's evictions after `since`."""
        return [at for at in self._done.get(policy, ()) if at > since]

    def number(self, policy: PolicyKey) -> int:
        """Return how many evictions of a policy are remembered."""
        return len(self._done.get(policy, ()))

    def tried(self, policy: PolicyKey, since: float) -> list[float]:
        """Return the times of a policy's attempts after `since`."""
        return [at for at in self._tried.get(policy, ()) if at > since]

    def all_done(self) -> Mapping[PolicyKey, Iterable[float]]:
        """Return the times of evictions by policy."""
        return self._done

    def all_left(self) -> Mapping[Place, Left]:
        """Return what left which place."""
        return self._left

    def restore(
        self, done: Mapping[PolicyKey, Iterable[float]], left: Mapping[Place, Left] | None = None
    ) -> None:
        """Replace the evictions, and add what left which place by another leader."""
        self._done = {policy: deque(sorted(times)) for policy, times in done.items()}
        for place, known in (left or {}).items():
            own = self._left.get(place)
            if own is None or (own.times, own.at) < (known.times, known.at):
                self._left[place] = known

    def use_up(self, until: float) -> None:
        """Permit no eviction until a time: another leader may have evicted a moment ago."""
        self._used_up_until = until

    def used_up_until(self) -> float:
        """Return until when no eviction is permitted."""
        return self._used_up_until

    def attempted(self, policy: PolicyKey, now: float) -> None:
        """Note an attempt."""
        self._tried.setdefault(policy, deque()).append(now)

    def doubtful(self, policy: PolicyKey, pod: Pod, now: float) -> None:
        """Note an eviction that may have happened: it counts, until it is known that it did not."""
        self._done.setdefault(policy, deque()).append(now)
        self._doubtful[pod.metadata.uid] = _Doubt(policy, now)

    def settle(self, running: Callable[[], Set[str]], now: float) -> bool:
        """Take back doubtful evictions of pods that run long after; return whether there were any.

        `running` returns the UIDs of running pods.
        """
        due = {uid: one for uid, one in self._doubtful.items() if one.at <= now - _DOUBT}
        if not due:
            return False
        still = due.keys() & running()
        for uid, (policy, at) in due.items():
            del self._doubtful[uid]
            if uid in still and at in self._done.get(policy, ()):
                self._done[policy].remove(at)
        return bool(still)

    def evicted(self, policy: PolicyKey, pod: Pod, beside: Iterable[Pod], now: float) -> None:
        """Note an eviction. `beside`: the running pods of the policy."""
        self._done.setdefault(policy, deque()).append(now)
        self._refused.pop(pod.metadata.uid, None)
        if (doubt := self._doubtful.pop(pod.metadata.uid, None)) is not None:
            with suppress(ValueError):  # it is the same eviction
                self._done[doubt.policy].remove(doubt.at)
        if (owner := pod.metadata.controller) is None:
            return
        self._owners.pop(owner.uid, None)
        place = Place(policy, pod.spec.node_name, owner.uid)
        if (left := self._left.get(place)) is None:
            there = frozenset(one.metadata.uid for one in beside if _place(policy, one) == place)
            self._left[place] = Left(there | {pod.metadata.uid}, now)
        else:
            left.times += pod.metadata.uid not in left.originals
            left.at = now

    def refused(self, pod: Pod, why: str, now: float, *, budget: bool, least: float = 0.0) -> None:
        """Note a refusal; that of a budget also rests the pods of the same owner. `least`: seconds to rest at least."""
        found = self._refused.get(pod.metadata.uid)
        if found is None:
            backoff = Backoff(self.random, first=_FIRST, longest=_LONGEST)
            found = self._refused[pod.metadata.uid] = _Refused(backoff, Refusal(now, why))
        found.times += 1
        found.last = Refusal(now + max(found.backoff.next(), least), why)
        if budget and (owner := pod.metadata.controller) is not None:
            self._owners[owner.uid] = found.last

    def last_refusal(self, pod: Pod) -> Refusal | None:
        """Return the last refusal of a pod, or of one of the same owner, also after its rest; None if it is long ago."""
        owner = pod.metadata.controller
        own = self._refused.get(pod.metadata.uid)
        found = [own.last] if own is not None else []
        if owner is not None and owner.uid in self._owners:
            found.append(self._owners[owner.uid])
        return max(found, default=None)

    def refusal(self, pod: Pod, now: float) -> Refusal | None:
        """Return the refusal for which a pod rests; None if it may be tried."""
        last = self.last_refusal(pod)
        return last if last is not None and last.until > now else None

    def refused_at(self, pod: Pod) -> float:
        """Return until when a pod rested that was refused again and again; 0 for any other."""
        found = self._refused.get(pod.metadata.uid)
        return found.last.until if found is not None and found.times >= _STUBBORN else 0.0

    def returns_at(self, policy: PolicyKey, pod: Pod) -> float:
        """Return when a pod may leave that came back to the node of its predecessor; 0 if it is no such pod."""
        place = _place(policy, pod)
        left = self._left.get(place) if place is not None else None
        if left is None or pod.metadata.uid in left.originals:
            return 0.0
        return left.at + _RETURNED[min(left.times, len(_RETURNED)) - 1]

    def forget(self, now: float, period: float, decisions: Mapping[PolicyKey, Decision]) -> None:
        """Drop what no longer counts. `decisions`: those in force."""
        for times, span in ((self._done, max(HOUR, period)), (self._tried, period)):
            _drop_before(times, now - span)
        since = now - _REMEMBERED
        self._refused = {u: one for u, one in self._refused.items() if one.last.until > since}
        self._owners = {u: one for u, one in self._owners.items() if one.until > since}
        self._left = {
            place: left
            for place, left in self._left.items()
            if (found := decisions.get(place.policy)) and place.node in found.deschedule
        }


def _place(policy: PolicyKey, pod: Pod) -> Place | None:
    owner = pod.metadata.controller
    return Place(policy, pod.spec.node_name, owner.uid) if owner is not None else None


def _drop_before(times: dict[PolicyKey, deque[float]], begin: float) -> None:
    for policy in list(times):
        found = times[policy]
        while found and found[0] <= begin:
            found.popleft()
        if not found:
            del times[policy]
