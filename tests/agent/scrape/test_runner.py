import threading
from collections.abc import Iterator

import pytest
import structlog

from agent.scrape.runner import CollectorRunner, combine
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, Family, Sample, SourceAbsentError
from collectors.registry import COLLECTORS, build
from plimsoll.threads import StoppedError
from tests.patience import PATIENCE

SUCCESS = "node_scrape_collector_success"
DURATION = "node_scrape_collector_duration_seconds"
SKIPPED = "node_scrape_collector_skipped_total"


def table(families) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name: {tuple(v for _, v in s.labels): s.value for s in family.samples}
        for family in families
    }


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


def test_run_has_families_and_success(source, family) -> None:
    ticks = iter([10.0, 10.25, 20.0, 20.5])
    collector_runner = CollectorRunner(
        {"b": source([family("node_b", 2)]), "a": source([family("node_a", 1)])},
        clock=lambda: next(ticks),
    )
    found = collector_runner.run()
    assert [f.name for f in found.families] == ["node_a", "node_b", DURATION, SKIPPED, SUCCESS]
    assert table(found.families)[DURATION] == {("a",): 0.5, ("b",): 0.25}
    assert table(found.families)[SUCCESS] == {("a",): 1, ("b",): 1}
    assert found.failed == frozenset()


def test_failed_collector_hides_no_other_and_leaves_no_partial_result(source, family) -> None:
    collector_runner = CollectorRunner(
        {
            "broken": source([family("node_half", 1)], ZeroDivisionError("oops")),
            "failing": source([family("node_part", 1)], CollectorError("EIO")),
            "missing": source([], SourceAbsentError("no such file")),
            "good": source([family("node_good", 1)]),
        }
    )
    found = collector_runner.run()
    assert table(found.families)[SUCCESS] == {
        ("broken",): 0,
        ("failing",): 0,
        ("missing",): 0,
        ("good",): 1,
    }
    assert {"node_good"} == table(found.families).keys() - {SUCCESS, DURATION, SKIPPED}
    assert found.failed == {"broken", "failing"}
    assert found.absent == {"missing"}


def test_duration_includes_the_last_family(source, family) -> None:
    now = [0.0]

    class Slow:
        def collect(self) -> Iterator[Family]:
            yield family("node_a", 1)
            now[0] += 3.0

    collector_runner = CollectorRunner({"slow": Slow()}, clock=lambda: now[0])
    assert table(collector_runner.run().families)[DURATION] == {("slow",): 3.0}


def test_run_can_be_of_some_collectors(source, family) -> None:
    a, b = source([family("node_a", 1)]), source([family("node_b", 1)])
    collector_runner = CollectorRunner({"a": a, "b": b})
    assert table(collector_runner.run(["b", "unknown"]).families).keys() == {
        "node_b",
        SUCCESS,
        DURATION,
        SKIPPED,
    }
    assert (a.runs, b.runs) == (0, 1)


def test_repeated_error_is_logged_once(source, logged) -> None:
    failing = source([], CollectorError("EIO"))
    collector_runner = CollectorRunner({"disk": failing})
    for _ in range(3):
        collector_runner.run()
    failing.error = CollectorError("ENOSPC")
    collector_runner.run()
    failing.error = None
    for _ in range(2):
        collector_runner.run()
    failing.error = ZeroDivisionError("oops")
    for _ in range(2):
        collector_runner.run()
    assert [(line["log_level"], line.get("reason")) for line in logged] == [
        ("error", "EIO"),
        ("error", "ENOSPC"),
        ("info", None),
        ("error", None),
    ]


def test_absent_source_is_logged_as_debug(source, logged) -> None:
    CollectorRunner({"psi": source([], SourceAbsentError("no PSI"))}).run()
    assert [line["log_level"] for line in logged] == ["debug"]


def test_concurrent_runs_do_not_run_one_collector_twice(source, family) -> None:
    inside = 0
    most = 0
    both_started = threading.Barrier(2)

    def enter() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.02)
        inside -= 1

    collector_runner = CollectorRunner({"a": source([family("node_a", 1)], before=enter)})

    def run() -> None:
        both_started.wait(PATIENCE)
        collector_runner.run()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.fixture
def stuck(source) -> Iterator[tuple[object, threading.Event]]:
    """A collector that hangs until the test ends, and an event set when it starts to."""
    go_on, entered = threading.Event(), threading.Event()

    def stall() -> None:
        entered.set()
        assert go_on.wait(PATIENCE)

    yield source([], before=stall), entered
    go_on.set()


def test_slow_collector_does_not_delay_the_rest_of_another_run(source, family, stuck) -> None:
    collector, entered = stuck
    collector_runner = CollectorRunner(
        {"stuck": collector, "good": source([family("node_good", 1)])}, timeout=2.0
    )
    thread = threading.Thread(target=collector_runner.run)
    thread.start()
    assert entered.wait(PATIENCE)
    assert "node_good" in table(collector_runner.run(["good"]).families)
    thread.join()


def test_stuck_collector_has_failed_and_hides_no_other(source, family, stuck, logged) -> None:
    collector, _ = stuck
    collector_runner = CollectorRunner(
        {"stuck": collector, "good": source([family("node_good", 1)])}, timeout=1.0
    )
    for _ in range(3):
        found = collector_runner.run()
        assert table(found.families)["node_good"] == {(): 1}
        assert table(found.families)[SUCCESS] == {("good",): 1, ("stuck",): 0}
        assert table(found.families)[DURATION][("stuck",)] >= 1.0
        assert found.failed == {"stuck"}
    assert collector.runs == 1, "it is not started again"
    assert [line["reason"] for line in logged] == ["has not returned for 1s"]


def test_closed_runner_rejects_runs(source) -> None:
    collector_runner = CollectorRunner({"a": source()})
    collector_runner.close()
    with pytest.raises(StoppedError):
        collector_runner.run()


def test_collectors_of_a_metric_are_found(xeon) -> None:
    collector_runner = CollectorRunner(
        build(xeon, {name: entry.options() for name, entry in COLLECTORS.items()})
    )
    files = {"textfile", "synthetic"}
    assert collector_runner.serving([]) == frozenset()
    assert collector_runner.serving(["node_load1"]) == {"loadavg"} | files
    assert collector_runner.serving(["memory_MemAvailable_bytes"]) == {"meminfo"} | files
    assert collector_runner.serving(["health_metric"]) == files
    assert collector_runner.serving(["vmstat_oom_kill", "load5"]) == {"vmstat", "loadavg"} | files


def test_disabled_collector_provides_nothing(xeon) -> None:
    collector_runner = CollectorRunner(build(xeon, {"loadavg": COLLECTORS["loadavg"].options()}))
    assert collector_runner.serving(["node_load1", "node_memory_MemFree_bytes"]) == {"loadavg"}


def series(name: str, *values: tuple[str, float], kind="gauge") -> Family:
    samples = tuple(Sample(name, (("l", label),), value) for label, value in values)
    return Family(name, kind, "Help.", samples)


def test_families_of_one_name_are_merged() -> None:
    found, clashes = combine([[series("x", ("a", 1))], [series("x", ("b", 2))]])
    assert [sample.value for sample in found["x"].samples] == [1, 2]
    assert clashes == frozenset()


def test_first_of_two_conflicting_collectors_counts() -> None:
    found, clashes = combine(
        [
            [series("x", ("a", 1)), series("y", ("a", 1))],
            [series("x", ("a", 9), ("b", 2)), series("y", ("b", 2), kind="counter")],
        ]
    )
    assert [sample.value for sample in found["x"].samples] == [1, 2]
    assert [sample.value for sample in found["y"].samples] == [1]
    assert clashes == {"x", "y"}


def test_deduplicating_collector_yields_to_others_and_extra_families(
    source, family, logged
) -> None:
    class Deduplicating:
        def collect(self) -> list[Family]:
            return [family(name, 9) for name in ("node_a", "node_b", "node_c", SUCCESS)]

        def without_duplicates(self, own, others):
            self.others = set(others)
            return [f for f in own if f.name not in others]

    guest = Deduplicating()
    collector_runner = CollectorRunner({"guest": guest, "a": source([family("node_a", 1)])})
    found = table(collector_runner.run(beside=[family("node_b", 2)]).families)
    assert guest.others == {"node_a", "node_b", SUCCESS, DURATION, SKIPPED}
    assert (found["node_a"], found["node_b"], found["node_c"]) == ({(): 1}, {(): 2}, {(): 9})
    assert found[SUCCESS] == {("a",): 1, ("guest",): 1}
    assert logged == []


def test_conflict_is_logged_once(source, family, logged) -> None:
    collector_runner = CollectorRunner(
        {"a": source([family("node_a", 1)]), "b": source([family("node_a", 2)])}
    )
    for _ in range(3):
        assert table(collector_runner.run().families)["node_a"] == {(): 1}
    assert [line["metric"] for line in logged] == ["node_a"]


def test_no_collector_fails_on_the_fixture_node(xeon) -> None:
    needing_servers = {"ntp", "supervisord"}
    collector_runner = CollectorRunner(
        build(
            xeon,
            {n: entry.options() for n, entry in COLLECTORS.items() if n not in needing_servers},
        )
    )
    found = collector_runner.run()
    assert found.failed == frozenset()


def test_collectors_that_only_this_agent_has_succeed_where_nothing_is(tmp_path) -> None:
    """An operator who counts failed collectors of node_exporter sees no others."""
    own = ("cpu_throttle", "ext4", "gpu", "hugepages", "kernel_events", "machine_check", "memory_failure", "numa", "pcie_aer", "problems", "rasdaemon", "resctrl")  # fmt: skip
    host = Host(procfs=tmp_path, sysfs=tmp_path, rootfs=tmp_path)
    chosen = {name: COLLECTORS[name].options() for name in own}
    found = CollectorRunner(build(host, chosen)).run()
    assert table(found.families)[SUCCESS] == {(name,): 1 for name in own}
