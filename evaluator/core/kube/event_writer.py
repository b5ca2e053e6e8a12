"""Creates an Event, or updates it if it exists."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator

from evaluator.core.kube.client import Kube, now
from evaluator.core.kube.transport import KubeError
from evaluator.core.model import events
from evaluator.core.model.events import EventSpec, ObjectReference


async def _at_once() -> None:
    """Do not wait."""


class EventWriter:
    """Writes events. `second_turn()` is awaited before a second request for one write: the caller's token covers one."""

    def __init__(self, kube: Kube, second_turn: Callable[[], Awaitable[None]] = _at_once) -> None:
        self._kube = kube
        self._second_turn = second_turn

    async def write(
        self, about: ObjectReference, spec: EventSpec, *, suffix: str, count: int, times: int = 1
    ) -> int:
        """Create the event, or add `times` to its count; return the new count. An expired event is created with the new count, as
        client-go does.

        `suffix` identifies the event among those of the object. `count` is 0 if the event is not known to exist.

        Raises:
            KubeError: the API server refused the request or could not be reached.
        """
        body = events.event(about, spec, suffix=suffix, count=count + times, at=now())
        name = body["metadata"]["name"]
        changes = {field: body[field] for field in ("type", "message", "lastTimestamp")}
        if count:
            with _unless(404):  # events live for an hour
                again = {**changes, "count": count + times}
                return await self._kube.amend_event(about.namespace, name, again)
            await self._second_turn()
        with _unless(409):  # created by another replica, or by this one before a restart
            await self._kube.create_event(body)
            return count + times
        await self._second_turn()
        return await self._kube.amend_event(about.namespace, name, changes)


@contextlib.contextmanager
def _unless(status: int) -> Iterator[None]:
    """Suppress a KubeError of this status, like contextlib.suppress."""
    try:
        yield
    except KubeError as error:
        if error.status != status:
            raise
