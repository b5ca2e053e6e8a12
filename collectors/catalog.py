"""Every metric the collectors can emit: name, type, unit, HELP, labels, collector, source file.

A name is exact (`node_load1`) or a template with one placeholder (`node_vmstat_<field>`). Collectors build their families
here, so what is not in this table cannot be emitted. Two collectors also have names nobody can list: `OPEN_ENDED`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from collectors.sample import Family, Labels, MetricType, Sample

OPEN_ENDED = frozenset({"synthetic", "textfile"})
"""Collectors that can yield a metric of any name, beside the ones listed here."""

AGENT = "agent"
"""Stands in the collector column for what the agent says about its own rounds."""


class UncataloguedError(Exception):
    """An emission that this table does not know: a mistake in a collector, not a state of the host."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row: what a family of this name looks like, and where it comes from."""

    name: str
    type: MetricType
    help: str
    collector: str
    source: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    node_exporter: bool = True


def find(name: str) -> Metric | None:
    """The row for a metric: the exact one, else the first template that fits."""
    found = _find(name)
    return found[0] if found else None


def family(name: str, rows: Iterable[tuple[Sequence[str], float]]) -> Family:
    """A family of this metric; a row is the label values, in the catalog's order, and the value."""
    found = _find(name)
    if found is None:
        raise UncataloguedError(f"no metric {name} in the catalog")
    metric, described = found
    samples = tuple(Sample(name, _labels(metric, values), value) for values, value in rows)
    return Family(name, metric.type, described, samples)


def single(name: str, value: float) -> Family:
    """A family of one sample without labels."""
    return family(name, (((), value),))


def _labels(metric: Metric, values: Sequence[str]) -> Labels:
    if len(values) != len(metric.labels):
        raise UncataloguedError(f"{metric.name} has the labels {metric.labels}, not {values}")
    return tuple(zip(metric.labels, values, strict=True))


def _pressure(name: str, resource: str, what: str) -> Metric:
    return Metric(
        f"node_pressure_{name}_seconds_total",
        "counter",
        f"Total time in seconds {what}",
        "pressure",
        f"<procfs>/pressure/{resource}",
        unit="seconds",
    )


def _meminfo() -> Iterator[Metric]:
    """Fields that node_exporter lists one by one are exact rows; what later kernels add fits the templates."""
    in_bytes = (
        "Active Active_anon Active_file AnonHugePages AnonPages Bounce Buffers Cached CmaFree CmaTotal "
        "CommitLimit Committed_AS DirectMap1G DirectMap2M DirectMap4k Dirty HardwareCorrupted Hugepagesize "
        "Inactive Inactive_anon Inactive_file KernelStack Mapped MemAvailable MemFree MemTotal Mlocked "
        "NFS_Unstable PageTables Percpu SReclaimable SUnreclaim Shmem ShmemHugePages ShmemPmdMapped Slab "
        "SwapCached SwapFree SwapTotal Unevictable VmallocChunk VmallocTotal VmallocUsed Writeback "
        "WritebackTmp Zswap Zswapped"
    )
    counts = "HugePages_Free HugePages_Rsvd HugePages_Surp HugePages_Total"
    for field, unit, known in (
        *((f"{name}_bytes", "bytes", True) for name in in_bytes.split()),
        *((name, "", True) for name in counts.split()),
        ("<field>_bytes", "bytes", False),
        ("<field>", "", False),
    ):
        help_ = f"Memory information field {field}."
        name, source = f"node_memory_{field}", "<procfs>/meminfo"
        yield Metric(name, "gauge", help_, "meminfo", source, unit=unit, node_exporter=known)


_STAT, _CPUINFO = "<procfs>/stat", "<procfs>/cpuinfo"
_CPUS = "<sysfs>/devices/system/cpu"

# One row a metric, in the order of Metric's fields.
# fmt: off
METRICS: tuple[Metric, ...] = (
    Metric("node_cpu_seconds_total", "counter", "Seconds the CPUs spent in each mode.",
           "cpu", _STAT, ("cpu", "mode"), "seconds"),
    Metric("node_cpu_guest_seconds_total", "counter", "Seconds the CPUs spent in guests (VMs) for each mode.",
           "cpu", _STAT, ("cpu", "mode"), "seconds"),
    Metric("node_cpu_core_throttles_total", "counter", "Number of times this CPU core has been throttled.",
           "cpu", f"{_CPUS}/cpu*/thermal_throttle/core_throttle_count", ("package", "core")),
    Metric("node_cpu_package_throttles_total", "counter", "Number of times this CPU package has been throttled.",
           "cpu", f"{_CPUS}/cpu*/thermal_throttle/package_throttle_count", ("package",)),
    Metric("node_cpu_isolated", "gauge",
           "Whether each core is isolated, information from /sys/devices/system/cpu/isolated.",
           "cpu", f"{_CPUS}/isolated", ("cpu",)),
    Metric("node_cpu_online", "gauge", "CPUs that are online and being scheduled.",
           "cpu", f"{_CPUS}/cpu*/online", ("cpu",)),
    Metric("node_cpu_info", "gauge", "CPU information from /proc/cpuinfo.", "cpu", _CPUINFO,
           ("package", "core", "cpu", "vendor", "family", "model", "model_name", "microcode", "stepping", "cachesize")),
    Metric("node_cpu_frequency_hertz", "gauge", "CPU frequency in hertz from /proc/cpuinfo.",
           "cpu", _CPUINFO, ("package", "core", "cpu"), "hertz"),
    Metric("node_cpu_flag_info", "gauge",
           "The `flags` field of CPU information from /proc/cpuinfo taken from the first core.",
           "cpu", _CPUINFO, ("flag",)),
    Metric("node_cpu_bug_info", "gauge",
           "The `bugs` field of CPU information from /proc/cpuinfo taken from the first core.",
           "cpu", _CPUINFO, ("bug",)),

    Metric("node_load1", "gauge", "1m load average.", "loadavg", "<procfs>/loadavg"),
    Metric("node_load5", "gauge", "5m load average.", "loadavg", "<procfs>/loadavg"),
    Metric("node_load15", "gauge", "15m load average.", "loadavg", "<procfs>/loadavg"),

    *_meminfo(),

    _pressure("cpu_waiting", "cpu", "that processes have waited for CPU time"),
    _pressure("io_waiting", "io", "that processes have waited due to IO congestion"),
    _pressure("io_stalled", "io", "no process could make progress due to IO congestion"),
    _pressure("memory_waiting", "memory", "that processes have waited for memory"),
    _pressure("memory_stalled", "memory", "no process could make progress due to memory congestion"),
    _pressure("irq_stalled", "irq", "no process could make progress due to IRQ congestion"),

    Metric("node_synthetic_<number>", "gauge", "A made-up value of this agent's synthetic collector.",
           "synthetic", "none", node_exporter=False),

    Metric("node_textfile_mtime_seconds", "gauge", "Unixtime mtime of textfiles successfully read.",
           "textfile", "*.prom", ("file",), "seconds"),
    Metric("node_textfile_scrape_error", "gauge", "1 if there was an error opening or reading a file, 0 otherwise",
           "textfile", "*.prom"),

    Metric("node_vmstat_<field>", "untyped", "/proc/vmstat information field <field>.", "vmstat", "<procfs>/vmstat"),

    Metric("node_scrape_collector_duration_seconds", "gauge", "node_exporter: Duration of a collector scrape.",
           AGENT, "none", ("collector",), "seconds"),
    Metric("node_scrape_collector_success", "gauge", "node_exporter: Whether a collector succeeded.",
           AGENT, "none", ("collector",)),
)
# fmt: on

_PLACEHOLDER = re.compile(r"<[a-z]+>")


def _compile(template: str) -> re.Pattern[str]:
    before, after = _PLACEHOLDER.split(template)
    return re.compile(f"{re.escape(before)}([a-zA-Z0-9_]+){re.escape(after)}")


_EXACT = {metric.name: metric for metric in METRICS if "<" not in metric.name}
_TEMPLATES = tuple((_compile(metric.name), metric) for metric in METRICS if "<" in metric.name)


@lru_cache(maxsize=8192)
def _find(name: str) -> tuple[Metric, str] | None:
    """A row, and its HELP with the placeholder filled in."""
    if (exact := _EXACT.get(name)) is not None:
        return exact, exact.help
    for pattern, metric in _TEMPLATES:
        if (match := pattern.fullmatch(name)) is not None:
            return metric, _PLACEHOLDER.sub(match.group(1), metric.help)
    return None
