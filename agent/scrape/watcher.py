"""Watches the sources of collectors for changes: one thread checks their fingerprints and calls the subscribers.

Sources are polled, since inotify sees no changes on network file systems and its instances are limited per user. Polling stays
in one thread: to involve the event loop or another thread in each check would cost several times as much as the check.
"""

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from collectors.interface.sample import Watchable
from plimsoll import logs

log = logs.get(__name__)

_REST = 10  # checking may take one eleventh of the time: thousands of files, or a slow disk


@dataclass(eq=False, slots=True)
class Watch:
    """A subscription."""

    on_change: Callable[[], None]
    """Called in the watcher's thread; must not block or raise."""
    started: threading.Event = field(default_factory=threading.Event)
    """Set once changes are noticed: a source that is read afterwards, and then changes, is reported."""


class SourceWatcher:
    """Watches some collectors while there are subscribers. Any thread may call its methods."""

    def __init__(
        self,
        sources: Mapping[str, Watchable],
        interval: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`interval`: seconds between two checks."""
        self._sources = sources
        self._interval = interval
        self._clock = clock
        self._watches: list[Watch] = []
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._errors: dict[str, str] = {}

    def subscribe(self, on_change: Callable[[], None]) -> Watch:
        """Call `on_change` whenever a source has changed."""
        watch = Watch(on_change)
        with self._lock:
            self._watches.append(watch)
            if self._thread is None:
                # A daemon: a hanging source must not keep the process from ending.
                self._thread = threading.Thread(target=self._work, name="watcher", daemon=True)
                self._thread.start()
            else:
                self._woken.set()
        return watch

    def forget(self, watch: Watch) -> None:
        """End a subscription."""
        with self._lock:
            self._watches.remove(watch)
        self._woken.set()

    def _work(self) -> None:
        sources = dict(self._sources)
        seen: dict[str, Hashable] = {}
        while True:
            self._woken.clear()
            if not (watches := self._current()):
                return
            begin = self._clock()
            before, seen = seen, {name: self._look(name, c) for name, c in sources.items()}
            for watch in watches:
                if watch.started.is_set() and seen != before:
                    watch.on_change()
                watch.started.set()
            # No source: wait until the subscriptions change.
            sources = {name: sources[name] for name, state in seen.items() if state is not None}
            seen = {name: seen[name] for name in sources}
            pause = max(self._interval, _REST * (self._clock() - begin)) if sources else None
            self._woken.wait(pause)

    def _current(self) -> list[Watch]:
        with self._lock:
            if not self._watches:
                self._thread = None
            return self._watches[:]

    def _look(self, name: str, collector: Watchable) -> Hashable:
        try:
            return collector.fingerprint()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if self._errors.get(name) != text:
                log.exception("collector cannot be watched", collector=name)
                self._errors[name] = text
            return text
