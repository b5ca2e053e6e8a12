"""Watching sources: subscribers are called on a change, and idle sources cost no check."""

import threading
from collections.abc import Callable, Hashable, Iterator

import pytest
import structlog

from agent.scrape.watcher import SourceWatcher
from collectors.interface.sample import Family
from tests.patience import PATIENCE


class Source:
    """A source whose fingerprint the test sets, and that counts checks."""

    def __init__(self, look: Callable[[], Hashable] = lambda: 1) -> None:
        self.look = look
        self.checks = 0
        self.checked = threading.Event()

    def collect(self) -> list[Family]:
        return []

    def fingerprint(self) -> Hashable:
        self.checks += 1
        self.checked.set()
        return self.look()

    def await_checks(self, number: int) -> None:
        """Wait until so many checks more have begun."""
        until = self.checks + number
        while self.checks < until:
            self.checked.clear()
            assert self.checked.wait(PATIENCE)


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def changed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def watching(changed: threading.Event) -> Iterator[Callable[..., SourceWatcher]]:
    made = []

    def start(**sources: Source) -> SourceWatcher:
        watcher = SourceWatcher(sources, 0.001)
        watch = watcher.subscribe(changed.set)
        made.append((watcher, watch))
        return watcher

    yield start
    for watcher, watch in made:
        watcher.forget(watch)


def test_subscriber_is_called_when_a_source_changes(changed, watching) -> None:
    source = Source()
    watching(w=source)
    source.await_checks(3)
    assert not changed.is_set()
    source.look = lambda: 2
    assert changed.wait(PATIENCE)


def test_change_after_start_is_noticed_by_a_second_subscriber(watching) -> None:
    source = Source()
    watcher = watching(w=source)
    source.await_checks(3)
    late = threading.Event()
    watch = watcher.subscribe(late.set)
    assert watch.started.wait(PATIENCE)
    source.look = lambda: 2
    assert late.wait(PATIENCE)
    watcher.forget(watch)


def test_checks_end_with_the_last_subscription(changed) -> None:
    source = Source()
    watcher = SourceWatcher({"w": source}, 0.001)
    watch = watcher.subscribe(changed.set)
    thread = watcher._thread
    source.await_checks(2)
    watcher.forget(watch)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    again = watcher.subscribe(changed.set)
    source.await_checks(2)
    watcher.forget(again)


def test_source_with_nothing_to_watch_is_checked_once(changed, watching) -> None:
    nothing, source = Source(lambda: None), Source()
    watching(nothing=nothing, w=source)
    source.await_checks(5)
    assert nothing.checks == 1


def test_failing_fingerprint_is_logged_once(logged, watching) -> None:
    def fail() -> None:
        raise OSError("EIO")

    bad = Source(fail)
    watching(bad=bad)
    bad.await_checks(3)
    assert [line["collector"] for line in logged] == ["bad"]


def test_hanging_source_does_not_block_subscribers(changed) -> None:
    hang = threading.Event()
    watcher = SourceWatcher({"stuck": Source(lambda: hang.wait(PATIENCE))}, 0.001)
    watch = watcher.subscribe(changed.set)
    assert not watch.started.is_set()
    watcher.forget(watch)
    hang.set()


def test_slow_check_is_followed_by_a_proportional_pause(changed) -> None:
    """On a fake clock a check takes an hour: the next one is ten hours later."""
    now = [0.0]

    def hour() -> int:
        now[0] += 3600
        return 1

    slow = Source(hour)
    watcher = SourceWatcher({"w": slow}, 0.001, clock=lambda: now[0])
    watch = watcher.subscribe(changed.set)
    assert watch.started.wait(PATIENCE)
    assert not threading.Event().wait(0.1)
    assert slow.checks == 1
    watcher.forget(watch)
