"""The actions of all replicas: read from the Secret `plimsoll-history`, and written to it by the leader.

Every replica shows the same actions, also after a restart. What a replica did itself is in its history at once; what others
did, when the object has it. What all replicas notice by themselves, such as a stop, has a topic and is recorded once: by the
leader, while the others wait for its record.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.resources import secret
from evaluator.core.kube.transport import KubeError
from evaluator.core.leader.write_fence import NotLeaderError
from evaluator.core.model.names import UNREADABLE, PolicyKey
from evaluator.core.signals import Acted
from evaluator.features.history.archive import (
    LONGEST_TEXT,
    NAME,
    Archive,
    StoredAction,
    printable,
)
from evaluator.features.history.history import History
from evaluator.features.history.kinds import SharedActionsFields
from evaluator.features.history.recorder import HistoryMetrics
from plimsoll import logs, rfc3339
from plimsoll.pace import sliced
from plimsoll.steps import Steps
from plimsoll.text import one_line
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

T = TypeVar("T")

PERIOD = 10.0
"""Seconds between two writes."""
_LOOK = 1.0
"""Seconds between two looks at the object, and at what waits."""
_PATIENCE = 15.0
"""Seconds that a replica waits for the leader's record of what both notice."""
_MOST_WAITING = 20_000
"""Actions that wait to be written; the oldest are left out first."""
_MOST_HELD = 1_000
_MOST_KNOWN = 1_000
"""Writers and topics that are remembered."""
_LARGEST = 3 << 20
"""Bytes of an object that is read; the API server accepts less."""
_LONGEST_WATCH = 60.0
"""Seconds after which a watch is opened anew, as a lost connection may be reported by nothing."""
_CONFLICT = 409


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Secret(msgspec.Struct):
    metadata: _Metadata
    data: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_Secret).decode


class _Found(NamedTuple):
    """The object as it is. `problem`: why it cannot be used."""

    version: str = ""
    data: Mapping[str, str] = {}
    problem: str = ""


_ABSENT = _Found(problem=f"Secret {NAME} does not exist: apply the manifests")
_RAISED = _Found(problem=f"Secret {NAME}: an internal error, which the evaluator's log has")


def _parse(raw: bytes | msgspec.Raw) -> _Found:
    """Return what a Secret has."""
    if len(raw) > _LARGEST:
        return _Found(problem=f"Secret {NAME} has more than {_LARGEST} bytes")
    try:
        found = _decode(raw)
    except UNREADABLE as error:
        return _Found(problem=one_line(f"Secret {NAME} is unreadable: {error}"))
    return _Found(found.metadata.resource_version, found.data or {})


class SecretPatcher(Protocol):
    """Changes Secrets."""

    async def patch_secret(
        self, namespace: str, name: str, data: Mapping[str, str | None], resource_version: str
    ) -> bytes:
        """Set keys, and remove those without a value; return the Secret's JSON. Raises KubeError, with 409 if it has changed."""
        ...


@dataclass
class _Problem:
    """Why actions are not read or not written, and since when (Unix seconds); empty if all is well."""

    what: str
    wall: Callable[[], float]
    why: str = ""
    since: float = 0.0

    def set(self, why: str) -> None:
        """Note why, or that there is no problem; a change is logged once."""
        if why and not self.why:
            self.since = self.wall()
            log.warning("actions are not %s", self.what, error=why)
        elif self.why and not why:
            log.info("actions are %s again", self.what)
        self.why = why


class _Held(NamedTuple):
    """What every replica notices, until the leader's record of it is read. `until`: seconds of the monotonic clock."""

    action: Acted
    at: float
    until: float


class SharedActions:
    """Records actions in the history, and shares them. The sink of the watch of the object."""

    def __init__(
        self,
        history: History,
        kube: SecretPatcher,
        namespace: str,
        metrics: HistoryMetrics,
        *,
        is_leader: Callable[[], bool],
        age: float,
        started: float,
        read_anew: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        part: Part | None = None,
    ) -> None:
        """`age`: seconds for which actions are kept. `started`: Unix seconds. `read_anew` requests a new list of the object."""
        self._history, self._kube, self._namespace = history, kube, namespace
        self._metrics, self._is_leader, self._age = metrics, is_leader, age
        self._started, self._read_anew = started, read_anew
        self._clock, self._wall = clock, wall
        self._part = part or uncounted("shared actions")
        self._archive = Archive()
        self._unread: _Found | None = None
        """The object, if it changed since it was last read."""
        self._version = ""
        """The resourceVersion that was read; empty if none was."""
        self._sequence = self._stored = 0
        """The last action of this replica, and the last one of those in the object."""
        self._waiting: deque[StoredAction] = deque(maxlen=_MOST_WAITING)
        self._held: deque[_Held] = deque(maxlen=_MOST_HELD)
        self._last_of_topics: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """The kind and text of the last action of each topic."""
        self._last_of_writers: OrderedDict[str, int] = OrderedDict()
        """The sequence of the last action that was read of each writer."""
        self._write_at = 0.0
        self._turn = asyncio.Lock()
        self._wakeup = WakeUp()
        self._not_read = _Problem("read", wall)
        self._not_written = _Problem("written", wall)

    def acted(self, action: Acted) -> None:
        """Record what this replica did; what all notice is held until the leader has recorded it."""
        action = replace(action, text=one_line(action.text, LONGEST_TEXT))
        if action.topic:
            self._held.append(_Held(action, self._wall(), self._clock() + _PATIENCE))
        else:
            self._record(action, self._wall())
        self._wakeup.set()

    def _record(self, action: Acted, at: float) -> None:
        self._history.add_action(action, at)
        self._remember(action.topic, action.kind, action.text)
        self._sequence += 1
        stored = StoredAction(
            writer=self._history.recorder,
            sequence=self._sequence,
            at=at,
            kind=str(action.kind),
            policy=str(action.policy or ""),
            node=action.node,
            pod=action.pod,
            text=action.text,
            topic=action.topic,
        )
        self._waiting.append(printable(stored))  # any other could not be encoded, for ever

    def replacing(self, objects: list[_Found]) -> Iterator[None]:
        """Take over a list, which has one object at most."""
        self.put(objects[0] if objects else _ABSENT)
        yield from ()

    def put(self, found: _Found) -> None:
        """Take over the object; it is read later."""
        self._unread = found
        self._wakeup.set()

    def drop(self, _found: _Found) -> None:
        """The object was deleted."""
        self.put(_ABSENT)

    def read_failed(self, error: KubeError) -> None:
        """The object could not be listed or watched."""
        if error.gone:
            return
        self._not_read.set(one_line(str(error)))
        self._wakeup.set()

    def read_current(self) -> None:
        """What was read of the object is current."""
        if self._unread is None and self._version:
            self._not_read.set("")

    async def run(self) -> None:
        """Read the object when it changes, and write it at most every `PERIOD` seconds, until cancelled."""
        while True:
            await self._wakeup.wait(None if self._is_idle() else _LOOK)
            await self.look()
            await asyncio.sleep(_LOOK)

    def _is_idle(self) -> bool:
        return not (self._held or self._waiting or self._archive.info is None)

    async def look(self, *, at_once: bool = False) -> None:
        """Read the object if it changed, and write what waits if it is time, or `at_once`."""
        async with self._turn:
            if self._unread is not None:
                found, self._unread = self._unread, None
                with self._part.isolated(NAME):
                    await self._read(found)
            self._settle()
            due = at_once or self._clock() >= self._write_at
            if due and self._version and self._is_leader():
                with self._part.isolated(f"write of {NAME}"):
                    await self._write()

    async def leave(self) -> None:
        """Write what waits, before this replica stops."""
        await self.look(at_once=True)

    async def _read(self, found: _Found) -> None:
        self._not_read.set(found.problem)
        if found.problem:
            self._version = ""
            return
        await sliced(self._reading(found.data))
        self._version = found.version
        if self._archive.unreadable:
            self._metrics.unreadable.inc(self._archive.unreadable)
            log.warning("a part of the actions is unreadable", parts=self._archive.unreadable)
        while self._waiting and self._waiting[0].sequence <= self._stored:
            self._waiting.popleft()

    def _reading(self, data: Mapping[str, str]) -> Steps[None]:
        for actions in self._archive.read(data):
            for action in actions:
                self._part.run(f"action {action.writer}-{action.sequence}", partial(self._take, action), None)  # fmt: skip
            yield

    def _take(self, stored: StoredAction) -> None:
        """Record an action of another replica, or of an earlier process, unless it is known."""
        if stored.writer == self._history.recorder:
            if stored.sequence <= self._sequence:
                self._stored = max(self._stored, stored.sequence)
            return
        if stored.sequence <= self._last_of_writers.get(stored.writer, 0):
            return
        _keep(self._last_of_writers, stored.writer, stored.sequence)
        action = printable(stored)
        if action.kind not in self._history.action_kinds or action.at < self._wall() - self._age:
            return
        if action.topic:
            if self._repeats(action.topic, action.kind, action.text):
                return
            self._remember(action.topic, action.kind, action.text)
            held = (h for h in self._held if (h.action.kind, h.action.text) == (action.kind, action.text))  # fmt: skip
            if (same := next(held, None)) is not None:
                self._held.remove(same)
        namespace, _, name = action.policy.partition("/")
        key = PolicyKey(namespace, name) if name else None
        known = Acted(action.kind, key, action.node, action.pod, action.text)
        self._history.add_action(known, action.at)

    def _settle(self) -> None:
        """Record what was held if this replica leads, or the leader's record does not arrive."""
        now = self._clock()
        while self._held:
            action, at, until = self._held[0]
            repeats = self._repeats(action.topic, action.kind, action.text)
            if not repeats and now < until and not (self._version and self._is_leader()):
                return
            self._held.popleft()
            if not repeats:
                self._part.run(f"action {action.kind}", partial(self._record, action, at), None)

    def _repeats(self, topic: str, kind: str, text: str) -> bool:
        return self._last_of_topics.get(topic) == (kind, text)

    def _remember(self, topic: str, kind: str, text: str) -> None:
        if topic:
            _keep(self._last_of_topics, topic, (str(kind), text))

    async def _write(self) -> None:
        """Write the actions that wait, and since when they are complete."""
        if not self._waiting and self._archive.info is not None:
            return
        oldest = self._wall() - self._age
        change = self._archive.change([*self._waiting], since=self._started, oldest=oldest)
        data = (await sliced(change)).result
        self._write_at = self._clock() + PERIOD
        try:
            raw = await self._kube.patch_secret(self._namespace, NAME, data, self._version)
        except NotLeaderError:
            return
        except KubeError as error:
            self._refused(error)
            return
        self._metrics.writes.labels("ok").inc()
        self._not_written.set("")
        await self._read(_parse(raw))

    def _refused(self, error: KubeError) -> None:
        if error.status == _CONFLICT:  # another leader wrote, or the answer to a write was lost
            self._metrics.writes.labels("conflict").inc()
            self._read_anew()
            return
        self._metrics.writes.labels("error").inc()
        self._write_at += error.retry_after or 0.0
        self._not_written.set(one_line(str(error)))

    @property
    def restores_before(self) -> float:
        """Before when actions may be restored from objects of the cluster (Unix seconds): later ones are shared."""
        if self._archive.info is not None:
            return self._archive.info.since
        return self._started if self._not_read.why else 0.0

    def shown(self) -> SharedActionsFields:
        """Return since when the actions are complete, and what is wrong."""
        info, ring = self._archive.info, self._history.actions
        since = max(self._wall() - self._age, info.since if info is not None else self._started)
        if ring.dropped:
            since = max(since, ring.oldest)
        problem = self._not_read if self._not_read.why else self._not_written
        if not problem.why and info is None:
            problem = _Problem("read", self._wall, f"Secret {NAME} was not read yet", self._started)
        why = problem.why and f"actions are not {problem.what}: {problem.why}"
        return SharedActionsFields(
            since=rfc3339.millis(since),
            left_out=info.left_out if info is not None else 0,
            problem=why or None,
            problem_since=rfc3339.millis(problem.since) if why else None,
        )


def _keep(known: OrderedDict[str, T], key: str, value: T) -> None:
    """Enter a value as the newest one; the oldest is dropped if there are too many."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > _MOST_KNOWN:
        known.popitem(last=False)


def watch(kube: Kube, namespace: str, actions: SharedActions, part: Part) -> Reflector[_Found]:
    """Return the watch of the object."""
    return Reflector(
        kube,
        secret(namespace, NAME),
        lambda raw: part.run(NAME, partial(_parse, raw), _RAISED),
        actions,
        guard=part,
        on_activity=actions.read_current,
        on_failure=actions.read_failed,
        longest_watch=_LONGEST_WATCH,
    )
