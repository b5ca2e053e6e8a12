import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from collectors import processes
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.processes import Processes, parse_limit, parse_stat

PARSERS = {
    "processes": processes.parse_stat,
    "processes limit": lambda text: [processes.parse_limit(text)],
}

SAMPLES = {
    "processes": (
        "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 33 1 2 3\n",
        processes.parse_stat,
    ),
}


STAT = "{pid} ({name}) {state} 1 {pid} {pid} 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 33 1 2 3"


class Procfs:
    """A procfs made of files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("sys/kernel/threads-max", "255200\n")
        self.write("sys/kernel/pid_max", "4194304\n")
        self.write("meminfo", "MemTotal: 1 kB\n")

    def write(self, name: str, text: str) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)

    def process(self, pid: int, states: str, name: str = "app") -> None:
        """A process with a thread in each of these states; the first is the main thread."""
        line = STAT.format(pid=pid, name=name, state=states[0], threads=len(states))
        self.write(f"{pid}/stat", line)
        for number, state in enumerate(states):
            thread = STAT.format(pid=pid + number, name=name, state=state, threads=len(states))
            self.write(f"{pid}/task/{pid + number}/stat", thread)


@pytest.fixture
def procfs(tmp_path: Path) -> Procfs:
    return Procfs(tmp_path)


def test_processes_and_threads_are_by_state(procfs: Procfs, values) -> None:
    procfs.process(1, "S", "systemd")
    procfs.process(20, "I", "kworker/0:1-events")
    procfs.process(300, "SRRD", "java")
    procfs.process(400, "Z", "odd) R 9 (name")
    assert values(Processes(Host(procfs=procfs.path)).collect()) == {
        "node_processes_threads": 7,
        "node_processes_max_threads": 255200,
        "node_processes_pids": 4,
        "node_processes_max_processes": 4194304,
        'node_processes_state{state="S"}': 2,
        'node_processes_state{state="I"}': 1,
        'node_processes_state{state="Z"}': 1,
        'node_processes_threads_state{thread_state="S"}': 2,
        'node_processes_threads_state{thread_state="I"}': 1,
        'node_processes_threads_state{thread_state="R"}': 2,
        'node_processes_threads_state{thread_state="D"}': 1,
        'node_processes_threads_state{thread_state="Z"}': 1,
    }


def test_process_that_ends_during_the_count_is_not_counted(procfs: Procfs, values) -> None:
    procfs.process(1, "S")
    procfs.process(5, "RR")
    (procfs.path / "5/task/6/stat").unlink()
    (procfs.path / "77").mkdir()
    found = values(Processes(Host(procfs=procfs.path)).collect())
    assert found["node_processes_pids"] == 2
    assert found['node_processes_threads_state{thread_state="R"}'] == 1


def test_process_that_ends_between_open_and_read_is_not_counted(procfs: Procfs, values) -> None:
    procfs.process(1, "S")
    dying = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Path(f"/proc/{dying.pid}/stat").open("rb") as stat:
        dying.communicate(b"\n")
        (procfs.path / "9").mkdir()
        # Opened again through this link, the file is that of an ended process: reading it gives ESRCH.
        (procfs.path / "9/stat").symlink_to(f"/proc/self/fd/{stat.fileno()}")
        found = values(Processes(Host(procfs=procfs.path)).collect())
    assert found["node_processes_pids"] == 1


def test_this_machine_is_counted(values) -> None:
    found = values(Processes(Host()).collect())
    assert found["node_processes_pids"] >= 1
    assert found["node_processes_threads"] >= found["node_processes_pids"]
    assert found["node_processes_pids"] == sum(
        count for series, count in found.items() if series.startswith("node_processes_state{")
    )


def test_invalid_process_is_left_out(procfs: Procfs, values) -> None:
    procfs.process(2, "S")
    procfs.write("1/stat", "1 (init) S 0")
    assert values(Processes(Host(procfs=procfs.path)).collect())["node_processes_pids"] == 1


def test_process_of_billions_of_threads_is_left_out(procfs: Procfs, values) -> None:
    procfs.process(2, "SR")
    odd = STAT.format(pid=1, name="init", state="S", threads=11592314880)
    procfs.write("1/stat", odd)
    assert values(Processes(Host(procfs=procfs.path)).collect())["node_processes_threads"] == 2


def test_unreadable_threads_of_a_process_hide_no_other(procfs: Procfs, values) -> None:
    procfs.process(2, "SR")
    procfs.process(3, "SS")
    shutil.rmtree(procfs.path / "3/task")
    (procfs.path / "3/task").symlink_to("task")
    found = values(Processes(Host(procfs=procfs.path)).collect())
    assert found["node_processes_threads"] == 4
    assert found['node_processes_threads_state{thread_state="R"}'] == 1


def test_missing_procfs_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Processes(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize(
    "text", ["", "1 (init", ")", "1 (init) S", STAT.format(pid=1, name="a", state="S", threads="x")]
)
def test_invalid_stat_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="stat"):
        parse_stat(text)


@pytest.mark.parametrize("text", ["", "max\n", "-1\n"])
def test_invalid_limit_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="limit"):
        parse_limit(text)
