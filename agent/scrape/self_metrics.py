"""Metrics about the agent: release, process, scrapes and stream.

Written without prometheus_client, which would take a tenth of the agent's memory and of a scrape, and without psutil, which
took 5.3 times the CPU of these reads and 3.5 MiB.
"""

import gc
import os
import platform
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from threading import Lock

from collectors.interface.kernelfiles import FILES
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from plimsoll import VERSION

_PROCESS = "/proc/self"  # the agent's own process, whichever host is mounted
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST = float((1 << 64) - 1)  # without a limit, as Go's Prometheus client
_GO_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}

METRICS = Table(
    Metric(
        "plimsoll_agent_build_info",
        "gauge",
        "Release of this agent and its Python version; always 1.",
        "",
        ("version", "pythonversion"),
    ),
    Metric(
        "node_exporter_build_info",
        "gauge",
        "Release of this agent under node_exporter's name, for dashboards; only with --web.node-exporter-compat.",
        "",
        ("branch", "goarch", "goos", "goversion", "revision", "tags", "version"),
    ),
    Metric(
        "plimsoll_agent_scrapes_total",
        "counter",
        "Requests for metrics by HTTP status.",
        "",
        ("code",),
    ),
    Metric(
        "plimsoll_agent_stream_up",
        "gauge",
        "1 while the stream to the evaluator is up, else 0; absent without --evaluator.address.",
        "",
    ),
    # Named as in the Prometheus client libraries.
    Metric(
        "process_cpu_seconds_total",
        "counter",
        "Total user and system CPU time spent in seconds.",
        "",
        unit="seconds",
    ),
    Metric(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
        "",
        unit="seconds",
    ),
    Metric(
        "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", "", unit="bytes"
    ),
    Metric(
        "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", "", unit="bytes"
    ),
    Metric(
        "process_virtual_memory_max_bytes",
        "gauge",
        "Maximum amount of virtual memory available in bytes.",
        "",
        unit="bytes",
    ),
    Metric("process_open_fds", "gauge", "Number of open file descriptors.", ""),
    Metric("process_max_fds", "gauge", "Maximum number of open file descriptors.", ""),
    Metric(
        "python_info",
        "gauge",
        "Python platform information",
        "",
        ("implementation", "major", "minor", "patchlevel", "version"),
    ),
    Metric(
        "python_gc_collections_total",
        "counter",
        "Number of times this generation was collected",
        "",
        ("generation",),
    ),
)


class Switch:
    """A gauge that is 1 or 0."""

    def __init__(self) -> None:
        self.up = False

    def set(self, up: bool) -> None:
        """Set the current state."""
        self.up = up


class SelfMetrics:
    """Counts scrapes and reads the process. Any thread may call its methods.

    `disabled` leaves only the release, for --web.disable-exporter-metrics. `compatible` adds it under node_exporter's name.
    """

    def __init__(self, *, disabled: bool = False, compatible: bool = False) -> None:
        self._disabled = disabled
        self._scrapes: Counter[str] = Counter()
        self._lock = Lock()
        self._streams = False
        self.stream_up = Switch()
        self._build = METRICS.family(
            "plimsoll_agent_build_info", [((VERSION, platform.python_version()), 1.0)]
        )
        self._alias = _node_exporter_build() if compatible else None
        version = sys.version_info
        self._python = METRICS.family(
            "python_info",
            [
                (
                    (
                        platform.python_implementation(),
                        str(version.major),
                        str(version.minor),
                        str(version.micro),
                        platform.python_version(),
                    ),
                    1.0,
                )
            ],
        )
        self._started = METRICS.single("process_start_time_seconds", time.time() - _age())

    def scraped(self, code: int) -> None:
        """Count a scrape."""
        with self._lock:
            self._scrapes[str(code)] += 1

    def watch_stream(self) -> None:
        """Export the stream's state from now on."""
        self._streams = True

    @property
    def stream(self) -> bool | None:
        """Whether the stream to the evaluator is up; None without an evaluator."""
        return self.stream_up.up if self._streams else None

    def families(self) -> Iterator[Family]:
        """Yield all families with current values."""
        yield self._build
        if self._alias is not None:
            yield self._alias
        if self._disabled:
            return
        if self._streams:
            yield METRICS.single("plimsoll_agent_stream_up", float(self.stream_up.up))
        rows = [((code,), float(number)) for code, number in sorted(self._scrapes.items())]
        yield METRICS.family("plimsoll_agent_scrapes_total", rows)
        yield self._python
        collections = enumerate(generation["collections"] for generation in gc.get_stats())
        yield METRICS.family(
            "python_gc_collections_total", [((str(n),), float(count)) for n, count in collections]
        )
        yield self._started
        yield from _process()


def _node_exporter_build() -> Family:
    machine = platform.machine()
    architecture = _GO_ARCHITECTURES.get(machine, machine)
    go = f"python{platform.python_version()}"
    labels = ("plimsoll", architecture, "linux", go, VERSION, "unknown", VERSION)
    return METRICS.family("node_exporter_build_info", [(labels, 1.0)])


def _process() -> Iterator[Family]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield METRICS.single("process_cpu_seconds_total", used.ru_utime + used.ru_stime)
    virtual, resident, *_ = FILES.read(f"{_PROCESS}/statm").split()
    yield METRICS.single("process_virtual_memory_bytes", float(int(virtual) * _PAGE))
    yield METRICS.single("process_resident_memory_bytes", float(int(resident) * _PAGE))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    unlimited = limit == resource.RLIM_INFINITY
    yield METRICS.single("process_virtual_memory_max_bytes", _MOST if unlimited else float(limit))
    yield METRICS.single("process_open_fds", float(_open_files()))
    yield METRICS.single("process_max_fds", float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))


def _open_files() -> int:
    """Return the number of open descriptors. Since Linux 6.2 it is the directory's size; listing costs a lookup per entry."""
    directory = f"{_PROCESS}/fd"
    return os.stat(directory).st_size or len(os.listdir(directory))  # noqa: PTH116, PTH208 (each scrape)


def _age() -> float:
    """Return the seconds since this process was started."""
    fields = FILES.read(f"{_PROCESS}/stat").rpartition(b")")[2].split()
    began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began
