"""Events counted by CPUs and the kernel, on all processes, by perf_event_open(2)."""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collectors.interface import host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.perf import perfevents
from collectors.perf.perfevents import CACHE, HARDWARE, SOFTWARE, TRACEPOINT, Event, EventCounter
from collectors.registry.options import PerfOptions
from collectors.shared import sysfs
from collectors.shared.formats.cpuranges import parse_ranges

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
        options: PerfOptions,
        *,
        open_event: perfevents.Open = perfevents.open_event,
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
        for metric, found in rows.items():
            yield METRICS.family(metric, found)

    def _open(self) -> Iterator[OpenEvent]:
        cpus = parse_ranges(self._options.perf_cpus) or range(os.cpu_count() or 1)
        for metric, event in self._events():
            for cpu in cpus:
                found = perfevents.counter(event, cpu, self._open_event)
                if found is not None:
                    yield OpenEvent(metric, str(cpu), found)

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
