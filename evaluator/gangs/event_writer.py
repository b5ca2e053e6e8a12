"""Creates or updates the event of a pod and a reason.

The event's name is derived from these, so that a new leader updates the events of the previous one instead of repeating them.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator

from evaluator.gangs.core.event_queue import EventKey
from evaluator.kubeapi.client import Kube, now
from evaluator.kubeapi.transport import KubeError
from evaluator.plans import events
from evaluator.plans.policy_events import EventSpec


class EventWriter:
    """Writes events. `second_turn()` is awaited before a second request for one write: the caller's token covers one."""

    def __init__(self, kube: Kube, second_turn: Callable[[], Awaitable[None]]) -> None:
        self._kube = kube
        self._second_turn = second_turn

    async def write(self, event_key: EventKey, notice: EventSpec, count: int) -> int:
        """Create the event, or update it with `count` + 1; return the new count.

        `count` is 0 if the event is not known to exist. Raises KubeError.
        """
        about = events.on_pod(event_key.namespace, event_key.name, event_key.uid)
        suffix = events.suffix_of(about, event_key.reason)
        body = events.event(about, notice, suffix=suffix, count=count + 1, at=now())
        name = body["metadata"]["name"]
        changes = {field: body[field] for field in ("type", "message", "lastTimestamp")}
        if count:
            with _unless(404):  # events live for an hour
                again = {**changes, "count": count + 1}
                return await self._kube.amend_event(event_key.namespace, name, again)
            await self._second_turn()
        with _unless(409):  # created by another replica, or by this one before a restart
            await self._kube.create_event(body)
            return count + 1
        await self._second_turn()
        return await self._kube.amend_event(event_key.namespace, name, changes)


@contextlib.contextmanager
def _unless(status: int) -> Iterator[None]:
    """Suppress a KubeError of this status, like contextlib.suppress."""
    try:
        yield
    except KubeError as error:
        if error.status != status:
            raise
