"""Computed cells of a pod: READY, STATUS and RESTARTS."""

from collections.abc import Iterator

from sandbox.apiserver.http.tables import age
from sandbox.apiserver.storage.objects import Json, condition, dig, meta


def ready_containers(obj: Json, now: float) -> str:
    """Return READY: `1/2`."""
    statuses = dig(obj, "status", "containerStatuses") or ()
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(dig(obj, 'spec', 'containers') or ())}"


def restarts(obj: Json, now: float) -> str:
    """Return RESTARTS: the count, and how long ago the last one was."""
    statuses = dig(obj, "status", "containerStatuses") or ()
    count = sum(status.get("restartCount") or 0 for status in statuses)
    ends = [dig(status, "lastState", "terminated", "finishedAt") for status in statuses]
    last = max(filter(None, ends), default=None)
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def status_text(obj: Json, now: float) -> str:
    """Return STATUS: the phase, or the reason that keeps the pod from running."""
    if meta(obj).get("deletionTimestamp"):
        return "Unknown" if dig(obj, "status", "reason") == "NodeLost" else "Terminating"
    reason = str(dig(obj, "status", "reason") or dig(obj, "status", "phase") or "Unknown")
    if (condition(obj, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    reason = next(_container_reasons(obj), reason)
    if reason == "Completed" and _runs_something(obj):
        ready = (condition(obj, "Ready") or {}).get("status") == "True"
        return "Running" if ready else "NotReady"
    return reason


def _container_reasons(obj: Json) -> Iterator[str]:
    for status in reversed(dig(obj, "status", "containerStatuses") or ()):
        if waiting := dig(status, "state", "waiting", "reason"):
            yield waiting
        elif (ended := dig(status, "state", "terminated")) is not None:
            yield ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"


def _runs_something(obj: Json) -> bool:
    statuses = dig(obj, "status", "containerStatuses") or ()
    return any(
        status.get("ready") and dig(status, "state", "running") is not None for status in statuses
    )
