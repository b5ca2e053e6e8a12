"""Events counted by CPUs and the kernel, on all processes, by perf_event_open(2)."""

import ctypes
import errno
import os
import platform
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared import sysfs
from plimsoll.flags import choice, option

_L1D, _L1I, _LAST, _DTLB, _ITLB, _BPU = range(6)
_READ, _WRITE = 0, 1 << 8
_HIT, _MISS = 0, 1 << 16
# Name in flags, event, the metric's name after node_perf_, its HELP.
_HARDWARE = (
    ("CpuCycles", 0, "cpucycles_total", "Number of CPU cycles (frequency scaled)"),
    ("CpuInstr", 1, "instructions_total", "Number of CPU instructions"),
    ("CacheRef", 2, "cache_refs_total", "Number of cache references (non frequency scaled)"),
    ("CacheMisses", 3, "cache_misses_total", "Number of cache misses"),
    ("BranchInstr", 4, "branch_instructions_total", "Number of CPU branch instructions"),
    ("BranchMisses", 5, "branch_misses_total", "Number of CPU branch misses"),
    ("StalledCyclesFrontend", 7, "stalled_cycles_frontend_total", "Number of stalled frontend CPU cycles"),
    ("StalledCyclesBackend", 8, "stalled_cycles_backend_total", "Number of stalled backend CPU cycles"),
    ("RefCpuCycles", 9, "ref_cpucycles_total", "Number of CPU cycles"),
)  # fmt: skip
_SOFTWARE = (
    ("PageFault", 2, "page_faults_total", "Number of page faults"),
    ("ContextSwitch", 3, "context_switches_total", "Number of context switches"),
    ("CpuMigration", 4, "cpu_migrations_total", "Number of CPU process migrations"),
    ("MinorFault", 5, "minor_faults_total", "Number of minor page faults"),
    ("MajorFault", 6, "major_faults_total", "Number of major page faults"),
)
_CACHE = (
    ("L1DataReadHit", _L1D | _READ | _HIT, "cache_l1d_read_hits_total", "Number L1 data cache read hits"),
    ("L1DataReadMiss", _L1D | _READ | _MISS, "cache_l1d_read_misses_total", "Number L1 data cache read misses"),
    ("L1DataWriteHit", _L1D | _WRITE | _HIT, "cache_l1d_write_hits_total", "Number L1 data cache write hits"),
    ("L1InstrReadMiss", _L1I | _READ | _MISS, "cache_l1_instr_read_misses_total", "Number instruction L1 instruction read misses"),
    ("InstrTLBReadHit", _ITLB | _READ | _HIT, "cache_tlb_instr_read_hits_total", "Number instruction TLB read hits"),
    ("InstrTLBReadMiss", _ITLB | _READ | _MISS, "cache_tlb_instr_read_misses_total", "Number instruction TLB read misses"),
    ("DataTLBReadHit", _DTLB | _READ | _HIT, "cache_tlb_data_read_hits_total", "Number of data TLB read hits"),
    ("DataTLBReadMiss", _DTLB | _READ | _MISS, "cache_tlb_data_read_misses_total", "Number of data TLB read misses"),
    ("DataTLBWriteHit", _DTLB | _WRITE | _HIT, "cache_tlb_data_write_hits_total", "Number of data TLB write hits"),
    ("DataTLBWriteMiss", _DTLB | _WRITE | _MISS, "cache_tlb_data_write_misses_total", "Number of data TLB write misses"),
    ("LLReadHit", _LAST | _READ | _HIT, "cache_ll_read_hits_total", "Number last level read hits"),
    ("LLReadMiss", _LAST | _READ | _MISS, "cache_ll_read_misses_total", "Number last level read misses"),
    ("LLWriteHit", _LAST | _WRITE | _HIT, "cache_ll_write_hits_total", "Number last level write hits"),
    ("LLWriteMiss", _LAST | _WRITE | _MISS, "cache_ll_write_misses_total", "Number last level write misses"),
    ("BPUReadHit", _BPU | _READ | _HIT, "cache_bpu_read_hits_total", "Number BPU read hits"),
    ("BPUReadMiss", _BPU | _READ | _MISS, "cache_bpu_read_misses_total", "Number BPU read misses"),
)  # fmt: skip
METRICS = Table(
    *(
        Metric(f"node_perf_{name}", "counter", about, "perf_event_open(2)", ("cpu",))
        for _, _, name, about in (*_HARDWARE, *_SOFTWARE, *_CACHE)
    ),
    Metric(
        "node_perf_<tracepoint>",
        "untyped",
        "Perf tracepoint <tracepoint>",
        "perf_event_open(2)",
        ("cpu",),
    ),
)


_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4})(?::([1-9][0-9]{0,3}))?)?", re.ASCII)
_TRACEPOINT = re.compile(r"[a-zA-Z0-9_-]+:[a-zA-Z0-9_-]+", re.ASCII)


def parse_ranges(text: str) -> Sequence[int]:
    """Return the numbers of a list such as `0,2-4,6-12:3` (0, 2, 3, 4, 6, 9, 12), ascending. Raises ValueError for other text."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        if (match := _RANGE.fullmatch(part)) is None:
            raise ValueError(f"not a list of CPUs: {text[:40]!r} (write it like 0,2-4 or 1-10:5)")
        first, last, step = match.groups()
        numbers.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return sorted(numbers)


def cpu_ranges(text: str) -> str:
    """Return a text after checking it, for flags."""
    parse_ranges(text)
    return text


def _tracepoint(text: str) -> str:
    if _TRACEPOINT.fullmatch(text) is None:
        raise ValueError(f"not a tracepoint: {text!r} (write it like sched:sched_process_exec)")
    return text


def _profilers(kind: str, rows: Iterable[tuple[str, int, str, str]]) -> Any:
    names = [name for name, *_ in rows]
    return option(
        f"collector.perf.{kind}-profilers",
        (),
        f"count only these {kind} events (repeatable): {', '.join(names)}",
        metavar="NAME",
        parse=choice(*names),
    )


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    perf_cpus: str = option(
        "collector.perf.cpus",
        "",
        "CPUs on which to count, such as 0,2-4 or 1-10:5; by default all",
        metavar="CPUS",
        parse=cpu_ranges,
    )
    perf_tracepoints: tuple[str, ...] = option(
        "collector.perf.tracepoint",
        (),
        "also count this tracepoint, such as sched:sched_process_exec (repeatable)",
        metavar="NAME",
        parse=_tracepoint,
    )
    perf_no_hardware: bool = option(
        "collector.perf.disable-hardware-profilers", False, "count no hardware events"
    )
    perf_hardware: tuple[str, ...] = _profilers("hardware", _HARDWARE)
    perf_no_software: bool = option(
        "collector.perf.disable-software-profilers", False, "count no software events"
    )
    perf_software: tuple[str, ...] = _profilers("software", _SOFTWARE)
    perf_no_cache: bool = option(
        "collector.perf.disable-cache-profilers", False, "count no cache events"
    )
    perf_cache: tuple[str, ...] = _profilers("cache", _CACHE)


HARDWARE, SOFTWARE, TRACEPOINT, CACHE = 0, 1, 2, 3
_SYSCALLS = {
    "x86_64": 298, "aarch64": 241, "riscv64": 241, "loongarch64": 241, "ppc64le": 319, "s390x": 331, "armv7l": 364, "i686": 336,
}  # fmt: skip
# The first version of struct perf_event_attr: type, size, config, period, sample type, format of reads, flags, ...
_ATTRIBUTES = struct.Struct("=IIQQQQQQQ")
_TIMES = 3  # reads also yield the time enabled and the time running
_CLOSE_ON_EXEC = 8
_READING = struct.Struct("=QQQ")
_UNSUPPORTED = frozenset({errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV, errno.ENXIO})

Open = Callable[["Event", int], int]
"""Opens an event on a CPU and returns a descriptor. Raises OSError."""


class Event(NamedTuple):
    """A kind of event."""

    type: int
    config: int


def open_event(event: Event, cpu: int) -> int:
    """Open an event of all processes on a CPU."""
    if (number := _SYSCALLS.get(platform.machine())) is None:
        raise OSError(errno.ENOSYS, f"no perf_event_open for {platform.machine()}")
    attributes = _ATTRIBUTES.pack(event.type, _ATTRIBUTES.size, event.config, 0, 0, _TIMES, 0, 0, 0)
    library = ctypes.CDLL(None, use_errno=True)
    descriptor: int = library.syscall(number, attributes, -1, cpu, -1, _CLOSE_ON_EXEC)
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor


class EventCounter:
    """An open event. If there are more events than hardware counters, each runs part of the time, and its increases are scaled."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._last = (0, 0, 0)
        self._total = 0.0

    def read(self) -> float:
        """Return the number of events since the event was opened."""
        content = os.read(self._descriptor, _READING.size)
        if len(content) == _READING.size:  # empty while the CPU is offline
            reading = _READING.unpack(content)
            count, enabled, running = (
                now - before for now, before in zip(reading, self._last, strict=True)
            )
            if running > 0:
                self._total += count * (enabled / running)
                self._last = reading
        return self._total

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self._descriptor)


def open_counter(event: Event, cpu: int, opened: Open = open_event) -> EventCounter | None:
    """Open an event; None if this machine does not have it. Raises CollectorError if it may not be opened."""
    try:
        return EventCounter(opened(event, cpu))
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return None
        hint = ""
        if error.errno in {errno.EACCES, errno.EPERM}:
            hint = "; needs CAP_PERFMON or kernel.perf_event_paranoid=0"
        raise CollectorError(f"perf_event_open: {error.strerror}{hint}") from error


class OpenEvent(NamedTuple):
    """A counter with the metric it belongs to."""

    metric: str
    cpu: str
    counter: EventCounter


class Perf:
    """The `perf` collector. Counters start at the first scrape."""

    def __init__(
        self,
        machine: host.Host,
        options: Options,
        *,
        open_event: Open = open_event,
    ) -> None:
        self._options = options
        self._tracing = [
            machine.sysfs / f"kernel/{path}/events" for path in ("tracing", "debug/tracing")
        ]
        self._open_event = open_event
        self._counters: list[OpenEvent] = []

    def collect(self) -> Iterator[Family]:
        """Read all counters."""
        self._counters = self._counters or list(self._open())
        if not self._counters:
            raise SourceAbsentError("this machine counts none of these events")
        rows: dict[str, list[tuple[tuple[str], float]]] = {}
        for metric, cpu, counter in self._counters:
            rows.setdefault(metric, []).append(((cpu,), counter.read()))
        for metric, samples in rows.items():
            yield METRICS.family(metric, samples)

    def _open(self) -> Iterator[OpenEvent]:
        cpus = parse_ranges(self._options.perf_cpus) or range(os.cpu_count() or 1)
        for metric, event in self._events():
            for cpu in cpus:
                counter = open_counter(event, cpu, self._open_event)
                if counter is not None:
                    yield OpenEvent(metric, str(cpu), counter)

    def _events(self) -> Iterator[tuple[str, Event]]:
        options = self._options
        for off, chosen, kind, rows in (
            (options.perf_no_hardware, options.perf_hardware, HARDWARE, _HARDWARE),
            (options.perf_no_software, options.perf_software, SOFTWARE, _SOFTWARE),
            (options.perf_no_cache, options.perf_cache, CACHE, _CACHE),
        ):
            for name, config, metric, _ in () if off else rows:
                if not chosen or name in chosen:
                    yield f"node_perf_{metric}", Event(kind, config)
        for tracepoint in dict.fromkeys(options.perf_tracepoints):
            name = tracepoint.replace(":", "_").replace("-", "_")
            yield f"node_perf_{name}", Event(TRACEPOINT, self._tracepoint(tracepoint))

    def _tracepoint(self, tracepoint: str) -> int:
        paths: Sequence[str] = [
            f"{path}/{tracepoint.replace(':', '/')}/id" for path in self._tracing
        ]
        for path in paths:
            if (number := sysfs.number(path)) is not None:
                return number
        raise CollectorError(f"no tracepoint {tracepoint}: cannot read {' or '.join(paths)}")


ENTRY = Entry(
    build=Perf,
    metrics=METRICS,
    about="events counted by CPUs and the kernel",
    on=False,
    options=Options,
    needs="CAP_PERFMON",
)
