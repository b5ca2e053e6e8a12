"""The `problems` collector: from lines of logs to metrics, conditions and events, over restarts and reboots."""

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError
from collectors.problems import Options, Problems, _Read
from collectors.problems.sources import FileSource, JournalSource, Line, Lines, SourceError
from collectors.problems.tracking import ProblemTracker
from collectors.shared.problems import monitors
from collectors.shared.problems.matching import LineMatcher
from tests.collectors.problems.configurations import document
from tests.patience import PATIENCE

DEADLOCK = 'problem_gauge{type="KernelDeadlock",reason="Stuck"}'


def until(answer):
    """Wait for another thread of the collector."""
    end = time.monotonic() + PATIENCE
    while not (found := answer()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


class Node:
    """A machine with a kernel log in a file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "kmsg"
        self.log.touch()
        self.numbers = 0
        self.config = root / "kernel.json"
        self.config.write_text(document())
        self.mounts("rw")
        self.boot("b1")

    def boot(self, name: str) -> None:
        path = self.root / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")

    def mounts(self, options: str) -> None:
        path = self.root / "proc/1/mountinfo"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"29 1 8:1 / / rw - ext4 /dev/sda1 {options}\n")

    def write(self, *texts: str, ago: float = 0.0) -> None:
        with self.log.open("a", errors="surrogateescape") as file:
            for text in texts:
                micros = int((time.monotonic() - ago) * 1e6)
                file.write(f"3,{self.numbers},{micros},-;{text}\n")
                self.numbers += 1

    def collector(self, clock=time.monotonic, **options) -> Problems:
        chosen = Options(
            problems_config=(str(self.root / "*.json"),),
            problems_kernel_log=str(self.log),
            problems_state_file=str(self.root / "state"),
        )
        changed = {**{f: getattr(chosen, f) for f in chosen.__slots__}, **options}
        host = Host(procfs=self.root / "proc", rootfs=self.root)
        return Problems(host, Options(**changed), clock=clock)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_lines_become_metrics_conditions_and_events(node: Node, values) -> None:
    collector = node.collector()
    before = values(collector.collect())
    assert before['problem_counter{reason="Hung"}'] == 0
    assert (
        before["node_problem_KernelDeadlock"] == before["node_problem_example_com_Split_Brain"] == 0
    )
    mark = collector.fingerprint()
    node.write("task a:1 blocked for more than 120 seconds.", "stuck")
    until(lambda: values(collector.collect())[DEADLOCK] == 1)
    assert collector.fingerprint() != mark
    found = values(collector.collect())
    assert found['problem_counter{reason="Hung"}'] == 1
    assert found['problem_gauge{type="KernelDeadlock",reason="DockerHung"}'] == 0
    assert found["node_problem_KernelDeadlock"] == 1
    assert found['node_problem_monitor_up{monitor="kernel.json"}'] == 1
    assert found["node_kernel_log_records_total"] == 2
    assert [event.reason for event in collector.events()] == ["Hung", "Stuck"]
    (active,) = [c for c in collector.conditions() if c.active]
    assert (active.type, active.message) == ("KernelDeadlock", "stuck; reboot")


def test_xids_of_the_kernel_are_counted_by_device_and_action(node: Node, values) -> None:
    collector = node.collector()
    xid = "NVRM: Xid (PCI:0000:3b:00): {}, pid=7, name=python, text"
    node.write(xid.format(79), xid.format(31), xid.format(31), xid.format(999))
    with node.log.open("a") as file:  # a program wrote this one to /dev/kmsg
        file.write(f"11,{node.numbers},1,-;{xid.format(48)}\n")
        node.numbers += 1
    node.write(f"usb 1-1: {xid.format(48)}")
    until(lambda: values(collector.collect()).get("node_kernel_log_records_total") == 6)
    errors = 'node_gpu_xid_errors_total{{pci_bus_id="00000000:3B:00.0",xid="{}",action="{}"}}'
    found = values(collector.collect())
    assert {s: v for s, v in found.items() if "xid_errors" in s} == {
        errors.format(79, "reboot"): 1,
        errors.format(31, "application"): 2,
        errors.format(999, "unknown"): 1,
    }
    until((node.root / "state").exists)
    until(lambda: "xids" in json.loads((node.root / "state").read_text()) and json.loads((node.root / "state").read_text())["xids"])  # fmt: skip
    again = values(node.collector().collect())
    assert again[errors.format(79, "reboot")] == 1


def test_restart_counts_nothing_twice_and_continues_where_it_stopped(node: Node, values) -> None:
    collector = node.collector()
    node.write("stuck")
    until(lambda: values(collector.collect())[DEADLOCK])
    until((node.root / "state").exists)
    node.write("task a:1 blocked for more than 120 seconds.", ago=0)
    again = node.collector()
    until(lambda: values(again.collect())['problem_counter{reason="Hung"}'] == 1)
    found = values(again.collect())
    assert found['problem_counter{reason="Stuck"}'] == 1
    assert found[DEADLOCK] == 1


def test_nothing_of_before_the_reboot_counts(node: Node, values) -> None:
    collector = node.collector()
    node.write("stuck")
    until(lambda: values(collector.collect())[DEADLOCK])
    until((node.root / "state").exists)
    node.boot("b2")
    node.log.write_text("")
    node.numbers = 0
    node.write("nothing")
    again = node.collector()
    until(lambda: values(again.collect()).get("node_kernel_log_records_total"))
    assert values(again.collect())[DEADLOCK] == 0


def test_lines_before_the_lookback_do_not_count(node: Node, values) -> None:
    node.write("stuck", ago=400)
    node.write("task a:1 blocked for more than 120 seconds.", ago=200)
    collector = node.collector()
    until(lambda: values(collector.collect()).get("node_kernel_log_records_total") == 2)
    found = values(collector.collect())
    assert found[DEADLOCK] == 0
    assert found['problem_counter{reason="Hung"}'] == 1


def test_acknowledgement_ends_a_problem_and_survives_a_restart(node: Node, values) -> None:
    collector = node.collector()
    node.write("stuck")
    until(lambda: values(collector.collect())[DEADLOCK])
    collector.acknowledge({"KernelDeadlock": time.time() - 3600})
    assert values(collector.collect())[DEADLOCK] == 1
    collector.acknowledge({"KernelDeadlock": time.time() + 1})
    assert values(collector.collect())[DEADLOCK] == 0
    again = node.collector()
    assert values(again.collect())[DEADLOCK] == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"version":1,"boot_id":"b1"}', b'{"version":1,"boot_id":"b1","tracker":{"counts":[],"conditions":[1]},"positions":{"kernel":["b1","x"]}}', b"\xff" * 100])  # fmt: skip
def test_damaged_state_is_discarded(node: Node, values, content: bytes) -> None:
    (node.root / "state").write_bytes(content)
    node.write("stuck")
    collector = node.collector()
    until(lambda: values(collector.collect())[DEADLOCK])


def test_invalid_configuration_is_reported_and_others_work(node: Node, values) -> None:
    (node.root / "broken.json").write_text("{")
    node.write("stuck")
    collector = node.collector()
    until(lambda: values(collector.collect())[DEADLOCK])
    assert values(collector.collect())['node_problem_monitor_up{monitor="broken.json"}'] == 0


def test_without_configurations_there_is_no_source(tmp_path: Path) -> None:
    collector = Problems(Host(procfs=tmp_path), Options())
    with pytest.raises(SourceAbsentError):
        list(collector.collect())
    assert collector.fingerprint() is None


def test_hostile_lines_change_nothing(node: Node, values) -> None:
    collector = node.collector()
    node.write(
        "x" * 100_000 + "stuck",  # beyond what is kept of a line
        r"comm\x0astuck\x0a: and more",
        "\udcff\udcfe binary",
        "\x1b[31mstuck\x1b[0m",
        'stuck"} 1 # name made to break a label',
    )
    with node.log.open("ab") as file:
        file.write(b"3,99,1,-;" + b"y" * 2_000_000 + b"\n")
    node.numbers = 100
    node.write("last")
    until(lambda: values(collector.collect()).get("node_kernel_log_records_total", 0) >= 6)
    found = values(collector.collect())
    assert found[DEADLOCK] == 0
    assert found['problem_counter{reason="Stuck"}'] == 0
    assert collector.events() == []


FILE_LOG = {
    "plugin": "filelog",
    "logPath": "/var/log/engine.log",
    "pluginConfig": {
        "timestamp": r"^time=(\S+)",
        "message": r'msg="([^"]*)"',
        "timestampFormat": "2006-01-02T15:04:05Z07:00",
    },
    "conditions": [],
    "rules": [{"type": "temporary", "reason": "Corrupt", "pattern": "corrupt layer"}],
}


def engine_line(text: str, at: float) -> str:
    return f'time={time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))} msg="{text}"\n'


def test_log_file_is_followed_through_rotation(node: Node, values) -> None:
    node.config.write_text(document(**FILE_LOG))
    log = node.root / "var/log/engine.log"
    log.parent.mkdir(parents=True)
    now = time.time()
    log.write_text(engine_line("corrupt layer", now - 4000) + "no time\n" + engine_line("corrupt layer", now))  # fmt: skip
    collector = node.collector()
    count = 'problem_counter{reason="Corrupt"}'
    until(lambda: values(collector.collect())[count] == 1)
    log.rename(log.with_name("engine.log.1"))
    log.write_text(engine_line("corrupt layer", time.time() + 1))
    until(lambda: values(collector.collect())[count] == 2)


def file_log(node: Node, *lines: str) -> Path:
    node.config.write_text(document(**FILE_LOG))
    log = node.root / "var/log/engine.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(f"{line}\n" for line in lines))
    return log


UP = 'node_problem_monitor_up{monitor="kernel.json"}'
UNPARSED = 'node_problem_unparsed_lines_total{monitor="kernel.json"}'


def test_log_of_which_no_line_fits_is_not_up_and_a_line_is_named(node: Node, values) -> None:
    log = file_log(node, "2026-11-26T18:33:45.123456+00:00 node-7 engine: corrupt layer", "other")
    collector = node.collector()
    with structlog.testing.capture_logs() as logged:
        until(lambda: values(collector.collect()).get(UNPARSED) == 2)
        assert values(collector.collect())[UP] == 0
    (line,) = [entry for entry in logged if "does not fit" in str(entry["event"])]
    assert "18:33:45.123456" in str(line["line"])
    with log.open("a") as file:
        file.write(engine_line("corrupt layer", time.time()) + "stack trace\n")
    until(lambda: values(collector.collect()).get(UNPARSED) == 3)
    assert values(collector.collect())[UP] == 1, "one fits"


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero", "directory"])
def test_log_that_is_no_file_is_explained(node: Node, values, kind: str) -> None:
    log = file_log(node)
    log.unlink()
    if kind == "fifo":
        os.mkfifo(log)
    elif kind == "directory":
        log.mkdir()
    else:
        log.symlink_to(kind)
    with pytest.raises(SourceError, match=r"engine\.log: (not a regular file|Is a directory)"):
        FileSource(log, FILE_LOG["pluginConfig"], None).read(0)


def test_record_that_comes_live_has_the_time_of_reading(node: Node, values) -> None:
    """The kernel's clock may be behind, by a suspension; the lookback is about what lay there."""
    node.write("stuck, before the start", ago=600)
    collector = node.collector()
    records = "node_kernel_log_records_total"
    until(lambda: values(collector.collect()).get(records) == 1)
    assert values(collector.collect())[DEADLOCK] == 0
    until(lambda: not collector._sources["kernel"]._lies_there)
    before = time.time()
    node.write("stuck", ago=600)
    until(lambda: values(collector.collect())[DEADLOCK] == 1)
    (active,) = [c for c in collector.conditions() if c.active]
    assert active.since >= before


def test_condition_ends_though_other_mounts_are_read_only_by_nature(node: Node, values) -> None:
    collector = node.collector()
    values(collector.collect())
    path = node.root / "proc/1/mountinfo"
    by_nature = (
        "60 29 7:3 / /opt/tool rw,relatime - squashfs /dev/loop3 ro,errors=continue\n"
        "65 29 0:39 / /srv/image rw,relatime - overlay overlay ro,lowerdir=/srv/a:/srv/b\n"
    )
    for options, sick in (("ro", True), ("rw", False)):
        path.write_text(f"29 1 8:1 / / rw - ext4 /dev/sda1 {options}\n{by_nature}")
        assert collector._states() == {"ReadonlyFilesystem": sick}


JOURNAL = """\
#!/bin/sh
echo "$*" > "$0.arguments"
cat "$0.entries"
exec sleep 600
"""


@pytest.fixture
def journalctl(tmp_path: Path) -> Path:
    program = tmp_path / "journalctl"
    program.write_text(JOURNAL)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_journal_entries_are_read_with_a_cursor(journalctl: Path) -> None:
    entries = [
        {"MESSAGE": "Started it.", "__REALTIME_TIMESTAMP": "1787385600000000", "__CURSOR": "c1"},
        {"MESSAGE": [66, 255, 10], "__REALTIME_TIMESTAMP": "1787385601000000", "__CURSOR": "c2"},
        {"MESSAGE": "Of no time.", "__REALTIME_TIMESTAMP": "9" * 400},
        {"MESSAGE": None},
    ]
    text = "\n".join([*map(json.dumps, entries), "not JSON", ""])
    journalctl.with_name("journalctl.entries").write_text(text)
    source = JournalSource(
        "kubelet", Path("/var/log/journal"), None, find=lambda _: str(journalctl)
    )
    lines = until(lambda: source.read(1.0).lines)
    assert [(line.text, line.at) for line in lines] == [("Started it.", 1787385600.0), ("B\ufffd\n", 1787385601.0)]  # fmt: skip
    assert source.position() == "c2"
    arguments = journalctl.with_name("journalctl.arguments").read_text()
    assert "-t kubelet --directory=/var/log/journal" in arguments
    source._process.kill()
    with pytest.raises(SourceError, match="ended"):
        until(lambda: source.read(1.0).lines)


def test_missing_journalctl_is_explained() -> None:
    source = JournalSource("kubelet", None, None, find=lambda _: None)
    with pytest.raises(SourceError, match="read a log file by a `filelog` monitor"):
        source.read(0)


def test_this_machine_is_read(node: Node, values) -> None:
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("/dev/kmsg is absent, or this user may not read it")
    collector = node.collector(problems_kernel_log="")
    up = 'node_problem_monitor_up{monitor="kernel.json"}'
    until(lambda: values(collector.collect())[up] == 1)


class QuietLog:
    """A log that returns what the test gives, and then ends the thread that reads it."""

    continued = True

    def __init__(self, *lines: str, seen: Callable[[], object]) -> None:
        self.lines, self.seen = list(lines), seen
        self.waits: list[float] = []
        self.at_each: list[object] = []

    def read(self, timeout: float) -> Lines:
        self.waits.append(timeout)
        self.at_each.append(self.seen())
        if not self.lines:
            raise EndOfTestError
        text = self.lines.pop(0)
        return Lines([Line(text, time.time())] if text else [])

    def position(self) -> int:
        return len(self.lines) // 2


class EndOfTestError(Exception):
    """No more lines."""


def test_quiet_log_is_rarely_looked_at_and_nothing_is_saved_again(node: Node) -> None:
    """While a problem lasts, it may end without a line."""
    now = [0.0]
    collector = node.collector(clock=lambda: now[0])
    state = node.root / "state"

    def version() -> object:
        now[0] += 60
        return state.stat().st_ino if state.exists() else None

    log = QuietLog("", "", "", "", "task docker:1 blocked for more than 120 seconds.", "", seen=version)  # fmt: skip
    monitor = monitors.parse(node.config.read_text(), "kernel.json")
    collector._tracker = ProblemTracker([monitor], {})
    collector._sources["kernel"] = log
    with pytest.raises(EndOfTestError):
        collector._work(log, [_Read(monitor, LineMatcher(monitor.rules, monitor.lines))])
    assert log.waits == [10, 10, 10, 10, 10, 1, 1]
    before, first, second, third, *_ = log.at_each
    assert before is None
    assert first is not None
    # The position moves with every other read.
    assert [first == second, second == third] == [True, False]
