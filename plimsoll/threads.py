"""Runs blocking calls that may hang, in threads that can be abandoned: no call delays another, or its caller.

One thread works off the queue, so that many quick calls cost no more than one. If a call takes longer than a moment, it
keeps its thread and another thread takes over the queue. If it takes longer than the timeout, its callers get `Late`. It is
not started again until it returns, so there is at most one thread more than there are different calls.
"""

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class StoppedError(Exception):
    """The runner was closed."""


@dataclass(frozen=True, slots=True)
class Late:
    """In place of a result: the call has not returned; `seconds` since it began."""

    seconds: float


@dataclass(eq=False, slots=True)
class _Wait(Generic[K, T]):
    """A caller that waits for results."""

    keys: tuple[K, ...]
    then: Callable[[dict[K, T | Late]], None]
    results: dict[K, T | Late] = field(default_factory=dict)

    def put(self, key: K, result: T | Late) -> bool:
        """Add a result. Returns whether it was the last; `end` must then be called outside of any lock."""
        self.results[key] = result
        return len(self.results) == len(self.keys)

    def end(self) -> None:
        self.then({key: self.results[key] for key in self.keys})


@dataclass(eq=False, slots=True)
class _Call(Generic[K, T]):
    """One call, queued or running, and its waiters."""

    do: Callable[[], T]
    began: float = 0.0
    waits: list[_Wait[K, T]] = field(default_factory=list)


class BlockingCallRunner(Generic[K, T]):
    """Runs calls identified by a key; two calls of one key never run at once. Calls must not raise. Any thread may call any method."""

    def __init__(self, timeout: float, *, moment: float = 0.05, name: str = "runner") -> None:
        """`moment`: seconds after which a running call no longer blocks the queue."""
        self._timeout = timeout
        self.moment = moment
        self._name = name
        self._changed = threading.Condition(threading.Lock())
        self._queued: dict[K, _Call[K, T]] = {}
        self._running: dict[K, _Call[K, T]] = {}
        self._active: threading.Thread | None = None
        self._busy_since: float | None = None  # when the active thread began its current call
        self._closed = False

    def run(self, calls: Mapping[K, Callable[[], T]]) -> dict[K, T | Late]:
        """Run calls and return when each has returned or is late.

        Results are of calls that began after this was called; a call still in the queue is shared. Raises StoppedError once the
        runner is closed.
        """
        completed: dict[K, T | Late] = {}
        over = threading.Event()

        def end(results: dict[K, T | Late]) -> None:
            completed.update(results)
            over.set()

        look = self.start(calls, end)
        while not over.wait(self.moment):
            look()
        return completed

    def start(
        self, calls: Mapping[K, Callable[[], T]], then: Callable[[dict[K, T | Late]], None]
    ) -> Callable[[], None]:
        """Start a `run` without blocking: `then` gets the results in the thread that completed the last of them.

        Returns a function to call every `moment` seconds until then, which detects late calls. `then` and the function must not
        raise; both this and the function raise StoppedError once the runner is closed.
        """
        wait = _Wait[K, T](tuple(calls), then)
        with self._changed:
            self._submit(calls, wait)
            ended = self._check(wait) or not calls
            self._changed.notify()
        if ended:
            wait.end()
        return partial(self._look_after, wait)

    def close(self) -> None:
        """Release all waiters at their next check. Hanging calls are abandoned."""
        with self._changed:
            self._closed = True
            self._active = None
            self._queued.clear()
            self._changed.notify_all()

    def _submit(self, calls: Mapping[K, Callable[[], T]], wait: _Wait[K, T]) -> None:
        for key, do in calls.items():
            call = self._queued.get(key)
            if call is None:
                call = self._queued[key] = _Call(do)
            call.waits.append(wait)

    def _look_after(self, wait: _Wait[K, T]) -> None:
        with self._changed:
            ended = self._check(wait)
        if ended:
            wait.end()

    def _check(self, wait: _Wait[K, T]) -> bool:
        """Start another thread if the queue's is blocked, and give up late calls. Returns whether the wait is over."""
        if self._closed:
            raise StoppedError
        now = time.monotonic()
        since = self._busy_since
        if self._active is None or (since is not None and now - since >= self.moment):
            self._take_over()
        late = [key for key, call in self._running.items() if now - call.began >= self._timeout]
        return any(self._give_up(wait, key, now - self._running[key].began) for key in late)

    def _give_up(self, wait: _Wait[K, T], key: K, seconds: float) -> bool:
        """Give up a late call. Returns whether it was the last one waited for."""
        queued = self._queued.get(key)
        for call in filter(None, (self._running[key], queued)):
            if wait in call.waits:
                call.waits.remove(wait)
                if queued is not None and not queued.waits:
                    del self._queued[key]
                return wait.put(key, Late(seconds))
        return False

    def _take_over(self) -> None:
        # A daemon: a hanging thread must not keep the process from ending.
        self._active = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._busy_since = None
        self._active.start()

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            key, call = taken
            result = call.do()
            with self._changed:
                del self._running[key]
                ended = [wait for wait in call.waits if wait.put(key, result)]
            for wait in ended:
                wait.end()

    def _next(self) -> tuple[K, _Call[K, T]] | None:
        """Return the next call once there is one; None if this thread was replaced."""
        me = threading.current_thread()
        with self._changed:
            while self._active is me:
                for key, call in self._queued.items():
                    if key not in self._running:
                        del self._queued[key]
                        self._running[key] = call
                        call.began = self._busy_since = time.monotonic()
                        return key, call
                self._busy_since = None
                self._changed.wait()
            # The call that just returned may allow a queued one of the same key to begin.
            self._changed.notify()
            return None
