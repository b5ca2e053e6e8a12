"""CPU time by mode, throttling, isolation and online state, from <procfs>/stat and <sysfs>/devices/system/cpu."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from collectors.cpu import cpuinfo
from collectors.cpu.cpuinfo import CpuLibrary
from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import sysfs
from collectors.shared.formats.cpulist import parse_cpu_list
from collectors.shared.formats.numerals import parse_uints
from collectors.shared.formats.patterns import regexp
from plimsoll.flags import option

_STAT, _CPUS = "<procfs>/stat", "<sysfs>/devices/system/cpu"
METRICS = Table(
    Metric(
        "node_cpu_seconds_total",
        "counter",
        "Seconds the CPUs spent in each mode.",
        _STAT,
        ("cpu", "mode"),
        "seconds",
    ),
    Metric(
        "node_cpu_guest_seconds_total",
        "counter",
        "Seconds the CPUs spent in guests (VMs) for each mode.",
        _STAT,
        ("cpu", "mode"),
        "seconds",
    ),
    Metric(
        "node_cpu_core_throttles_total",
        "counter",
        "Number of times this CPU core has been throttled.",
        f"{_CPUS}/cpu*/thermal_throttle/core_throttle_count",
        ("package", "core"),
    ),
    Metric(
        "node_cpu_package_throttles_total",
        "counter",
        "Number of times this CPU package has been throttled.",
        f"{_CPUS}/cpu*/thermal_throttle/package_throttle_count",
        ("package",),
    ),
    Metric(
        "node_cpu_isolated",
        "gauge",
        "Whether each core is isolated, information from /sys/devices/system/cpu/isolated.",
        f"{_CPUS}/isolated",
        ("cpu",),
    ),
    Metric(
        "node_cpu_online",
        "gauge",
        "CPUs that are online and being scheduled.",
        f"{_CPUS}/cpu*/online",
        ("cpu",),
    ),
    *cpuinfo.METRICS,
)

_SECONDS = ("node_cpu_seconds_total", "node_cpu_guest_seconds_total")
_INFO = tuple(metric.name for metric in cpuinfo.METRICS)
_USER_HZ = 100  # the kernel's unit in user space, independent of its tick
_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_GUEST_MODES = ("user", "nice")  # guest time is included in these modes too
_IDLE = _MODES.index("idle")
_JUMP_BACK_TICKS = 3 * _USER_HZ
_LONGEST_NAME = len("cpu") + 9

Ticks = tuple[int, ...]
"""A CPU's line of <procfs>/stat: as many numbers as the kernel has, guest times last."""


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    cpu_guest: bool = option("collector.cpu.guest", True, "export node_cpu_guest_seconds_total")
    cpu_info: bool = option(
        "collector.cpu.info", False, "export node_cpu_info and node_cpu_frequency_hertz"
    )
    cpu_flags_include: str = option(
        "collector.cpu.info.flags-include",
        "",
        "export node_cpu_flag_info for CPU flags that match; switches --collector.cpu.info on",
        metavar="REGEXP",
        parse=regexp,
    )
    cpu_bugs_include: str = option(
        "collector.cpu.info.bugs-include",
        "",
        "export node_cpu_bug_info for CPU bugs that match; switches --collector.cpu.info on",
        metavar="REGEXP",
        parse=regexp,
    )

    @property
    def wants_info(self) -> bool:
        """Whether <procfs>/cpuinfo must be read."""
        return self.cpu_info or bool(self.cpu_flags_include or self.cpu_bugs_include)


def parse_stat(text: str) -> dict[int, Ticks]:
    """Return times by CPU number, from <procfs>/stat."""
    lines = [line for line in text.splitlines() if line.startswith("cpu") and line[3:4] != " "]
    by_cpu = dict(guard.readable(lines, _ticks, *_SECONDS))
    if not by_cpu:
        raise CollectorError("stat: no CPU in it")
    return by_cpu


def _ticks(line: str) -> tuple[int, Ticks]:
    """Return a CPU's number and times."""
    first, *fields = line.split()
    number = first[3:]
    if not number.isascii() or not number.isdigit() or len(first) > _LONGEST_NAME:
        raise CollectorError(f"stat: no CPU {first[:40]!r}")
    if len(fields) <= _IDLE:
        raise CollectorError(f"stat: {first} has only {len(fields)} times")
    try:
        return int(number), parse_uints(fields)
    except ValueError as error:
        raise CollectorError(f"stat: {first}: {error}") from error


def advance(before: Mapping[int, Ticks], now: Mapping[int, Ticks]) -> dict[int, Ticks]:
    """Return times that never decrease: in many kernels idle and iowait decrease by a few ticks, which would look like a reset.

    If a CPU's idle time fell by seconds, the CPU was replugged and has new counters, which are used unchanged.
    """
    return {cpu: _advance(before.get(cpu, ()), ticks) for cpu, ticks in now.items()}


def _advance(before: Ticks, now: Ticks) -> Ticks:
    if len(before) != len(now) or before[_IDLE] - now[_IDLE] >= _JUMP_BACK_TICKS:
        return now
    return tuple(map(max, before, now))


def seconds(times: Mapping[int, Ticks], *, guest: bool) -> Iterator[Family]:
    """Yield the families from <procfs>/stat. Modes that the kernel does not count have no sample."""
    yield METRICS.family(
        "node_cpu_seconds_total",
        (
            ((str(cpu), mode), count / _USER_HZ)
            for cpu, ticks in times.items()
            for mode, count in zip(_MODES, ticks, strict=False)
        ),
    )
    if guest:
        rows = [
            ((str(cpu), mode), count / _USER_HZ)
            for cpu, ticks in times.items()
            for mode, count in zip(_GUEST_MODES, ticks[len(_MODES) :], strict=False)
        ]
        if rows:
            yield METRICS.family("node_cpu_guest_seconds_total", rows)


_CORE, _PACKAGE = "core_throttle_count", "package_throttle_count"
Rows = list[tuple[Sequence[str], float]]


class _Plan(NamedTuple):
    """The files to read for the current CPUs in their current states."""

    cpus: sysfs.Listing
    online: str | None
    switches: Mapping[str, str]
    """The file that switches each CPU."""
    cores: Mapping[tuple[str, str], str]
    packages: Mapping[tuple[str], str]


class CpuStates:
    """CPU states from sysfs. Files to read are determined again when a CPU is added, removed or switched."""

    def __init__(self, sysfs_root: Path) -> None:
        self._directory = f"{sysfs_root}/devices/system/cpu"
        self._plan = _Plan({}, None, {}, {}, {})

    def look(self) -> None:
        """Update the list of CPUs, which the other methods use."""
        cpus = sysfs.listing_optional(self._directory)
        online = sysfs.attribute(f"{self._directory}/online") if "online" in cpus else None
        if online is None or online != self._plan.online or cpus != self._plan.cpus:
            self._plan = _plan(self._directory, cpus, online)

    def online(self) -> Rows:
        """Return whether each CPU is online; nothing if the first one cannot be switched off, as in node_exporter."""
        switches, online = self._plan.switches, self._plan.online
        if "0" not in switches:
            return []
        if online is None:
            states = {cpu: sysfs.number(path) for cpu, path in switches.items()}
            return [((cpu,), float(state)) for cpu, state in states.items() if state is not None]
        if (running := _cpu_list(online, "node_cpu_online")) is None:
            return []
        return [((cpu,), float(int(cpu) in running)) for cpu in switches]

    def core_throttles(self) -> Rows:
        """Return the throttle count of each core."""
        return list(_counts(self._plan.cores))

    def package_throttles(self) -> Rows:
        """Return the throttle count of each package."""
        return list(_counts(self._plan.packages))


def _plan(directory: str, cpus: sysfs.Listing, online: str | None) -> _Plan:
    """Return one counter per core or package: their CPUs share it, so the first that has it is read."""
    switches: dict[str, str] = {}
    cores: dict[tuple[str, str], str] = {}
    packages: dict[tuple[str], str] = {}
    for name in cpus:
        cpu = name.removeprefix("cpu")
        if cpu == name or not cpu.isdigit():
            continue
        path = f"{directory}/{name}"
        if "online" in sysfs.listing_optional(path):
            switches[cpu] = f"{path}/online"
        package = sysfs.number(f"{path}/topology/physical_package_id")
        core = sysfs.number(f"{path}/topology/core_id")
        if package is None or core is None or package < 0:
            continue  # an offline CPU, or a virtual one without topology (-1)
        counters = sysfs.listing_optional(f"{path}/thermal_throttle")
        if _CORE in counters:
            cores.setdefault((str(package), str(core)), f"{path}/thermal_throttle/{_CORE}")
        if _PACKAGE in counters:
            packages.setdefault((str(package),), f"{path}/thermal_throttle/{_PACKAGE}")
    return _Plan(cpus, online, switches, cores, packages)


def _cpu_list(text: str, metric: str) -> set[int] | None:
    """Return the CPUs of a list; None if it cannot be read."""
    try:
        return set(parse_cpu_list(text))
    except CollectorError as error:
        guard.skip(error, metric)
        return None


def _counts(
    paths: Mapping[tuple[str, str], str] | Mapping[tuple[str], str],
) -> Iterator[tuple[Sequence[str], float]]:
    for labels, path in paths.items():
        if (count := sysfs.number(path)) is not None:
            yield labels, float(count)


class Cpu:
    """The `cpu` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._procfs = machine.procfs
        self._isolated = f"{machine.sysfs}/devices/system/cpu/isolated"
        self._states = CpuStates(machine.sysfs)
        self._library = CpuLibrary(machine.procfs)
        self._options = options
        self._times: dict[int, Ticks] = {}

    def collect(self) -> Iterator[Family]:
        """Read the sources now."""
        if self._options.wants_info:
            try:
                yield from self._info()
            except CollectorError as error:
                guard.skip(error, *_INFO)
        self._times = advance(self._times, parse_stat(host.read(self._procfs / "stat")))
        yield from seconds(self._times, guest=self._options.cpu_guest)
        isolated = _cpu_list(sysfs.attribute(self._isolated) or "", "node_cpu_isolated")
        self._states.look()
        for name, rows in (
            ("node_cpu_isolated", [((str(cpu),), 1.0) for cpu in isolated or ()]),
            ("node_cpu_package_throttles_total", self._states.package_throttles()),
            ("node_cpu_core_throttles_total", self._states.core_throttles()),
            ("node_cpu_online", self._states.online()),
        ):
            if rows:
                yield METRICS.family(name, rows)

    def _info(self) -> Iterator[Family]:
        cpus = cpuinfo.blocks(host.read(self._procfs / "cpuinfo"))
        if cpuinfo.lacks(cpus):
            cpus = cpuinfo.completed(cpus, self._library.facts)
        yield cpuinfo.info(cpus)
        yield from cpuinfo.frequency(cpus)
        yield from cpuinfo.features(cpus, "flags", self._options.cpu_flags_include)
        yield from cpuinfo.features(cpus, "bugs", self._options.cpu_bugs_include)


ENTRY = Entry(
    build=Cpu,
    metrics=METRICS,
    about="CPU time by mode, throttling, online CPUs",
    options=Options,
)
