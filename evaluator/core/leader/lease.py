"""Leader election as pure functions: the next step for a Lease as read, this replica's identity and the time.

Clocks of different replicas are never compared. As in client-go, a replica measures another's lease from when it saw the
lease change, and its own from when it sent the last renewal. The holder stops writing `renew_deadline` after that; another
acquires the lease `duration` after it saw the last change, which is not earlier.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """Lease duration, renew deadline of the holder, and retry period, in seconds."""

    duration: float
    renew_deadline: float
    retry: float


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """What a replica knows of the lease. `lease` is None if it does not exist.

    `changed`: when it first saw the lease like this. `renewed`: when it sent its last renewal, None while it does not lead.
    Both in seconds on its own clock.
    """

    lease: Object | None = None
    changed: float = 0.0
    renewed: float | None = None

    def read(self, lease: Object | None, now: float) -> "ObservedLease":
        """The state after a read. A renewal counts from when it was seen; changed metadata is no renewal."""
        same = lease is not None and self.lease is not None and _spec(lease) == _spec(self.lease)
        return replace(self, lease=lease, changed=self.changed if same else now)

    def wrote(self, lease: Object, began: float) -> "ObservedLease":
        """The state after an own write, which counts from before it was sent."""
        return ObservedLease(lease, changed=began, renewed=began)

    def stepped_down(self) -> "ObservedLease":
        """The state after stepping down."""
        return replace(self, renewed=None)

    @property
    def holder(self) -> str:
        """The holder in the lease; empty if there is none."""
        return str(_spec(self.lease).get("holderIdentity") or "") if self.lease else ""


@dataclass(frozen=True, slots=True)
class Acquire:
    """No other replica holds the lease: try to acquire it."""


@dataclass(frozen=True, slots=True)
class Renew:
    """This replica holds the lease: renew it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Another replica holds the lease, for `seconds` more unless it is renewed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class StepDown:
    """This replica led and must stop writing."""

    why: str


Step = Acquire | Renew | Wait | StepDown


def decide(seen: ObservedLease, me: str, timings: LeaseTimings, now: float) -> Step:
    """The next step of the replica with identity `me`."""
    if seen.renewed is not None:
        if now - seen.renewed >= timings.renew_deadline:
            return StepDown(f"not renewed for {timings.renew_deadline:g} s")
        if seen.holder not in {"", me}:
            return StepDown(f"{seen.holder} holds the lease")
        # After a deletion, the first replica to create the lease holds it.
        return Renew() if seen.holder == me else Acquire()
    if seen.holder in {"", me}:
        return Acquire()
    left = seen.changed + _duration(seen.lease or {}, timings) - now
    return Wait(left) if left > 0 else Acquire()


def held(seen: ObservedLease, me: str, timings: LeaseTimings, *, at: str) -> dict[str, Any]:
    """The lease to write to acquire or renew it at `at` (RFC 3339, microseconds).

    It keeps the resourceVersion that was read, so the API server refuses one of two concurrent writes.
    """
    old = _spec(seen.lease or {})
    ours = old.get("holderIdentity") == me
    spec = {
        **old,
        "holderIdentity": me,
        "leaseDurationSeconds": _whole(timings.duration),
        "acquireTime": old.get("acquireTime", at) if ours else at,
        "renewTime": at,
        "leaseTransitions": int(old.get("leaseTransitions") or 0)
        + bool(not ours and seen.lease is not None),
    }
    return {**(seen.lease or {}), "spec": spec}


def released(lease: Object, *, at: str) -> dict[str, Any]:
    """The lease to write to release it, so that another replica need not wait."""
    spec = {
        **_spec(lease),
        "holderIdentity": "",
        # The API server requires at least 1.
        "leaseDurationSeconds": 1,
        "renewTime": at,
    }
    return {**lease, "spec": spec}


def blank(namespace: str, name: str) -> dict[str, Any]:
    """A new lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {},
    }


def _spec(lease: Object) -> Mapping[str, Any]:
    spec = lease.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _duration(lease: Object, timings: LeaseTimings) -> float:
    """The duration the holder wrote: replicas may run with different durations during an upgrade."""
    return float(_spec(lease).get("leaseDurationSeconds") or timings.duration)


def _whole(seconds: float) -> int:
    """Whole seconds, rounded up, so that others do not acquire the lease too early."""
    return -int(-seconds // 1)
