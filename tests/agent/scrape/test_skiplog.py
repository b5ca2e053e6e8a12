"""What a collector leaves out is counted, logged once an hour for each kind, and reported as unread."""

from collections.abc import Iterator

import pytest
import structlog

from agent.scrape.runner import CollectorRunner
from agent.stream.snapshot import SnapshotReader
from collectors.interface import guard
from collectors.interface.sample import CollectorError, Family, Sample

SKIPPED = "node_scrape_collector_skipped_total"
SUCCESS = "node_scrape_collector_success"


class Odd:
    """A collector that leaves out some parts, and yields some families."""

    def __init__(self, *families: Family, skipped: dict[str, tuple[str, ...]]) -> None:
        self.families = families
        self.skipped = skipped

    def collect(self) -> Iterator[Family]:
        for reason, metrics in self.skipped.items():
            guard.skip(CollectorError(reason), *metrics)
        yield from self.families


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


def value(families: tuple[Family, ...], name: str, collector: str) -> float:
    (found,) = [
        sample.value
        for family in families
        if family.name == name
        for sample in family.samples
        if sample.labels == (("collector", collector),)
    ]
    return found


def test_collector_that_read_something_succeeds_and_its_skips_are_counted(family) -> None:
    odd = Odd(family("node_load1", 1), skipped={"stat: a": (), "stat: b": ()})
    runner = CollectorRunner({"loadavg": odd, "stat": Odd(family("node_b", 1), skipped={})})
    for times in (1, 2):
        found = runner.run().families
        assert value(found, SUCCESS, "loadavg") == 1
        assert value(found, SKIPPED, "loadavg") == 2 * times
        assert value(found, SKIPPED, "stat") == 0


def test_collector_that_read_nothing_fails() -> None:
    runner = CollectorRunner({"loadavg": Odd(skipped={"loadavg: odd": ()})})
    found = runner.run()
    assert value(found.families, SUCCESS, "loadavg") == 0
    assert found.failed == {"loadavg"}


def test_each_kind_is_logged_once_an_hour(family, logged) -> None:
    now = [0.0]
    odd = Odd(family("node_a", 1), skipped={"mountinfo: line 1": (), "mountinfo: line 2": ()})
    runner = CollectorRunner({"filesystem": odd}, clock=lambda: now[0])
    for seconds in (0, 15, 3599):
        now[0] = seconds
        runner.run()
    (line,) = logged
    assert (line["log_level"], line["collector"]) == ("warning", "filesystem")
    assert (line["reason"], line["parts"]) == ("mountinfo: line 1", 2)
    odd.skipped = {"sysfs: x": ()}
    runner.run()
    assert [line["reason"] for line in logged] == ["mountinfo: line 1", "sysfs: x"]
    now[0] = 7300
    runner.run()
    assert len(logged) == 3


@pytest.fixture
def snapshot():
    """The report on the metrics of the collector `stat`, which yields these families and leaves these parts out."""

    def read(metrics: list[str], *families: Family, skipped: dict[str, tuple[str, ...]]):
        return SnapshotReader(CollectorRunner({"stat": Odd(*families, skipped=skipped)})).read(
            metrics
        )

    return read


def test_metric_that_was_left_out_is_unread_and_others_are_absent(snapshot, family) -> None:
    found = snapshot(
        ["forks_total", "boot_time_seconds", "procs_running"],
        family("node_boot_time_seconds", 5),
        skipped={"stat processes: odd": ("node_forks_total",)},
    )
    assert found.values == {"boot_time_seconds": 5}
    assert found.unread == {"forks_total"}


def test_metric_of_a_collector_that_left_out_something_unnamed_is_unread(snapshot, family) -> None:
    found = snapshot(
        ["forks_total", "boot_time_seconds"],
        family("node_boot_time_seconds", 5),
        skipped={"stat: odd": ()},
    )
    assert (found.values, found.unread) == ({"boot_time_seconds": 5}, {"forks_total"})


def test_only_sample_left_of_several_is_not_the_value(snapshot) -> None:
    def softirqs(*vectors: str) -> Family:
        samples = (Sample("node_softirqs_total", (("vector", v),), 7.0) for v in vectors)
        return Family("node_softirqs_total", "counter", "", tuple(samples))

    assert snapshot(["softirqs_total"], softirqs("hi"), skipped={}).values == {"softirqs_total": 7}
    found = snapshot(["softirqs_total"], softirqs("hi"), skipped={"stat: odd": ()})
    assert (found.values, found.unread) == ({}, {"softirqs_total"})
    found = snapshot(["softirqs_total"], softirqs("hi", "rcu"), skipped={"stat: odd": ()})
    assert found.several == {"softirqs_total": 2}
