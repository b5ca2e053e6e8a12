"""Who of several replicas may write: what to do about a Lease as it was read, given who we are and what time it is.

Nobody's clock is compared with anybody else's. A replica judges another by when it last saw the lease change itself, as
Kubernetes' own controllers do, and itself by when it began to ask for its last renewal. The holder stops `renew_deadline`
after that; another may take over `duration` after it saw the last change, which cannot have been earlier.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """Seconds: how long a lease counts that nobody renews, when its holder gives up itself, how often it is looked at."""

    duration: float
    renew_deadline: float
    retry: float


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """What a replica knows. `changed`: when it first saw the lease like this; `renewed`: since when it holds it itself.

    Both in seconds on its own clock; `renewed` is None while it does not lead. `lease` is None where there is none.
    """

    lease: Object | None = None
    changed: float = 0.0
    renewed: float | None = None

    def read(self, lease: Object | None, now: float) -> "ObservedLease":
        """After looking: somebody's renewal counts from when it was seen. A change of its metadata is none."""
        same = lease is not None and self.lease is not None and _spec(lease) == _spec(self.lease)
        return replace(self, lease=lease, changed=self.changed if same else now)

    def wrote(self, lease: Object, began: float) -> "ObservedLease":
        """After our own write: it counts from before it was sent, when nobody can have seen it yet."""
        return ObservedLease(lease, changed=began, renewed=began)

    def stepped_down(self) -> "ObservedLease":
        """After giving up."""
        return replace(self, renewed=None)

    @property
    def holder(self) -> str:
        """Who holds it as far as the lease says; empty for nobody."""
        return str(_spec(self.lease).get("holderIdentity") or "") if self.lease else ""


@dataclass(frozen=True, slots=True)
class Acquire:
    """Nobody else holds it: try to get it."""


@dataclass(frozen=True, slots=True)
class Renew:
    """It is ours: say so again."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Somebody else holds it, for so many seconds more unless it is renewed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class StepDown:
    """We led, and may no more."""

    why: str


Step = Acquire | Renew | Wait | StepDown


def decide(seen: ObservedLease, me: str, terms: LeaseTimings, now: float) -> Step:
    """The next step of the replica called `me`."""
    if seen.renewed is not None:
        if now - seen.renewed >= terms.renew_deadline:
            return StepDown(f"not renewed for {terms.renew_deadline:g} s")
        if seen.holder not in {"", me}:
            return StepDown(f"{seen.holder} holds the lease")
        # Where somebody deleted the lease, whoever makes it anew first has it.
        return Renew() if seen.holder == me else Acquire()
    if seen.holder in {"", me}:
        return Acquire()
    left = seen.changed + _promised(seen.lease or {}, terms) - now
    return Wait(left) if left > 0 else Acquire()


def held(seen: ObservedLease, me: str, terms: LeaseTimings, *, at: str) -> dict[str, Any]:
    """The lease to write so that it is ours at the time `at` (RFC 3339, microseconds).

    It keeps the resourceVersion that was read: of two who try at once, the API server refuses one.
    """
    old = _spec(seen.lease or {})
    ours = old.get("holderIdentity") == me
    spec = {
        **old,
        "holderIdentity": me,
        "leaseDurationSeconds": _whole(terms.duration),
        "acquireTime": old.get("acquireTime", at) if ours else at,
        "renewTime": at,
        "leaseTransitions": int(old.get("leaseTransitions") or 0)
        + bool(not ours and seen.lease is not None),
    }
    return {**(seen.lease or {}), "spec": spec}


def given_up(lease: Object, *, at: str) -> dict[str, Any]:
    """The lease to write so that nobody holds it, and the next one need not wait."""
    spec = {
        **_spec(lease),
        "holderIdentity": "",
        # At least 1, says the API server.
        "leaseDurationSeconds": 1,
        "renewTime": at,
    }
    return {**lease, "spec": spec}


def blank(namespace: str, name: str) -> dict[str, Any]:
    """A lease that is still to be made."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {},
    }


def _spec(lease: Object) -> Mapping[str, Any]:
    spec = lease.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _promised(lease: Object, terms: LeaseTimings) -> float:
    """How long its holder said that it counts: replicas of two versions may have been told different durations."""
    return float(_spec(lease).get("leaseDurationSeconds") or terms.duration)


def _whole(seconds: float) -> int:
    """As the Lease has it: rounded up, or others would take over before their time."""
    return -int(-seconds // 1)
