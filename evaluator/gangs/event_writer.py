"""One event for each pod and reason, made, or changed where there is one.

Its name follows from these: a replica that takes over finds the event of the one before it, and goes on with that instead of
telling everything anew.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator

from evaluator.gangs.core.event_queue import EventKey
from evaluator.kubeapi.client import Kube, now
from evaluator.kubeapi.transport import KubeError
from evaluator.plans import events
from evaluator.plans.policy_events import EventSpec


class EventWriter:
    """`second_turn()` is awaited before a second request about the same: whoever asks has paid for one."""

    def __init__(self, kube: Kube, second_turn: Callable[[], Awaitable[None]]) -> None:
        self._kube = kube
        self._second_turn = second_turn

    async def write(self, event_key: EventKey, notice: EventSpec, count: int) -> int:
        """Tell once more what was told `count` times, as far as that is known; returns how often it is by now.

        Raises KubeError.
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
        with _unless(409):  # another replica made it, or this one before it was started anew
            await self._kube.create_event(body)
            return count + 1
        await self._second_turn()
        return await self._kube.amend_event(event_key.namespace, name, changes)


@contextlib.contextmanager
def _unless(status: int) -> Iterator[None]:
    """Go on behind the block where it is refused with this status."""
    try:
        yield
    except KubeError as error:
        if error.status != status:
            raise
