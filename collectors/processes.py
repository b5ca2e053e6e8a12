"""Processes and threads by state, and their limits, from <procfs>/<pid>."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared.formats.numerals import parse_uint

_STAT = "<procfs>/*/stat"
METRICS = Table(
    Metric("node_processes_threads", "gauge", "Allocated threads in system", _STAT),
    Metric(
        "node_processes_max_threads",
        "gauge",
        "Limit of threads in the system",
        "<procfs>/sys/kernel/threads-max",
    ),
    Metric(
        "node_processes_threads_state",
        "gauge",
        "Number of threads in each state.",
        "<procfs>/*/task/*/stat",
        ("thread_state",),
    ),
    Metric(
        "node_processes_state", "gauge", "Number of processes in each state.", _STAT, ("state",)
    ),
    Metric("node_processes_pids", "gauge", "Number of PIDs", _STAT),
    Metric(
        "node_processes_max_processes",
        "gauge",
        "Number of max PIDs limit",
        "<procfs>/sys/kernel/pid_max",
    ),
)

_LIMITS = {
    "threads-max": "node_processes_max_threads",
    "pid_max": "node_processes_max_processes",
}
_THREADS = 17  # position of the number of threads, after the state
_MOST_THREADS = 1 << 22
"""Of a machine (PID_MAX_LIMIT). A kernel may write billions for one process."""


def parse_stat(text: str) -> tuple[str, int]:
    """Return state and number of threads from a process's stat. The name before them may contain blanks and parentheses."""
    fields = text.rpartition(")")[2].split()
    try:
        state, threads = fields[0], parse_uint(fields[_THREADS])
    except (IndexError, ValueError) as error:
        raise CollectorError(f"process: unexpected stat {text[:80]!r}") from error
    if threads > _MOST_THREADS:
        raise CollectorError(f"process: stat has {threads} threads: {text[:80]!r}")
    return state, threads


def parse_limit(text: str) -> int:
    """Return the number in a kernel setting."""
    try:
        return parse_uint(text.strip())
    except ValueError as error:
        raise CollectorError(f"limit of processes: {error}") from error


class Processes:
    """The `processes` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._procfs = machine.procfs

    def collect(self) -> Iterator[Family]:
        """Count processes and threads. A process that ends meanwhile is not counted."""
        limits = self._procfs / "sys/kernel"
        for file, name in _LIMITS.items():
            try:
                yield METRICS.single(name, parse_limit(host.read(limits / file)))
            except SourceAbsentError:
                raise
            except CollectorError as error:
                guard.skip(error, name)
        threads = 0
        states: Counter[str] = Counter()
        thread_states: Counter[str] = Counter()
        for process in _numbered(self._procfs):
            if (status := _stat(process)) is not None:
                state, count = status
                threads += count
                states[state] += 1
                # Most processes have one thread, whose state is the process's: their tasks need not be read.
                thread_states.update(
                    [state] if count == 1 else guard.attempt(_thread_states(process, state))
                )
        yield METRICS.single("node_processes_threads", threads)
        yield METRICS.single("node_processes_pids", states.total())
        for name, counter in (
            ("node_processes_state", states),
            ("node_processes_threads_state", thread_states),
        ):
            yield METRICS.family(name, (((state,), count) for state, count in counter.items()))


def _thread_states(process: Path, state: str) -> Iterator[str]:
    for thread in _numbered(process / "task"):
        if thread.name == process.name:
            yield state
        elif (status := _stat(thread)) is not None:
            yield status[0]


def _stat(task: Path) -> tuple[str, int] | None:
    """None for a process or thread that has ended since it was listed, or that is left out."""
    try:
        return parse_stat(host.read_once(task / "stat"))
    except CollectorError as error:
        gone = isinstance(error, SourceAbsentError)
        if not gone and not isinstance(error.__cause__, ProcessLookupError):
            guard.skip(error)
        return None


def _numbered(directory: Path) -> Iterator[Path]:
    try:
        names = [path.name for path in directory.iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return
    except OSError as error:
        raise CollectorError(f"{directory}: {error.strerror}") from error
    for name in names:
        if name.isdigit():
            yield directory / name


ENTRY = Entry(
    build=lambda host, _: Processes(host),
    metrics=METRICS,
    about="processes and threads by state",
    on=False,
)
