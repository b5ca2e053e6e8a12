"""Time during which CPU cores and packages were throttled by heat, from <sysfs>/devices/system/cpu/cpu*/thermal_throttle."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, SourceAbsentError
from collectors.shared import sysfs

_CPUS = "<sysfs>/devices/system/cpu/cpu*/thermal_throttle"
METRICS = Table(
    Metric(
        "node_cpu_core_throttle_seconds_total",
        "counter",
        "Seconds this CPU core has been throttled for its heat.",
        f"{_CPUS}/core_throttle_total_time_ms",
        ("package", "core"),
        "seconds",
        node_exporter=False,
    ),
    Metric(
        "node_cpu_package_throttle_seconds_total",
        "counter",
        "Seconds this CPU package has been throttled for its heat.",
        f"{_CPUS}/package_throttle_total_time_ms",
        ("package",),
        "seconds",
        node_exporter=False,
    ),
)
_CORE, _PACKAGE = "core_throttle_total_time_ms", "package_throttle_total_time_ms"
_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class _Files:
    """Return the file of each core and each package."""

    cores: Mapping[tuple[str, str], str]
    packages: Mapping[tuple[str], str]


class CpuThrottle:
    """The `cpu_throttle` collector."""

    def __init__(self, machine: Host) -> None:
        self._base = f"{machine.sysfs}/devices/system/cpu"
        self._online: str | None = None
        self._files = _Files({}, {})

    def collect(self) -> Iterator[Family]:
        """Read the source. It does not exist on AMD CPUs, virtual machines and kernels before 5.6."""
        online = sysfs.attribute(f"{self._base}/online")
        if online is None or online != self._online:
            # The files of a CPU disappear when it goes offline; another CPU of the core has the same counters.
            self._files = self._find()
            self._online = online
        cores = list(_seconds(self._files.cores))
        packages = list(_seconds(self._files.packages))
        if not cores and not packages:
            raise SourceAbsentError("no CPU reports how long it was throttled")
        if cores:
            yield METRICS.family("node_cpu_core_throttle_seconds_total", cores)
        if packages:
            yield METRICS.family("node_cpu_package_throttle_seconds_total", packages)

    def _find(self) -> _Files:
        """Return one file per core and package: their CPUs share a state, so the first that has the file is used."""
        cores: dict[tuple[str, str], str] = {}
        packages: dict[tuple[str], str] = {}
        for number in _numbers(sysfs.listing(self._base)):
            directory = f"{self._base}/cpu{number}"
            package = sysfs.number(f"{directory}/topology/physical_package_id")
            core = sysfs.number(f"{directory}/topology/core_id")
            if package is None or core is None or package < 0:
                continue  # without a topology it is unknown which CPUs share a state
            directory = f"{directory}/thermal_throttle"
            files = sysfs.listing_optional(directory)
            if _CORE in files:
                cores.setdefault((str(package), str(core)), f"{directory}/{_CORE}")
            if _PACKAGE in files:
                packages.setdefault((str(package),), f"{directory}/{_PACKAGE}")
        return _Files(cores, packages)


def _numbers(entries: Iterable[str]) -> list[int]:
    """Return the CPUs in a directory that also has cpufreq and cpuidle."""
    numbers = (name.removeprefix("cpu") for name in entries if name.startswith("cpu"))
    return sorted(int(text) for text in numbers if text.isdigit())


def _seconds(
    files: Mapping[tuple[str, str], str] | Mapping[tuple[str], str],
) -> Iterator[tuple[tuple[str, ...], float]]:
    for labels, path in files.items():
        if (milliseconds := sysfs.number(path)) is not None:
            yield labels, milliseconds / _MILLISECONDS


ENTRY = Entry(
    build=lambda host, _: CpuThrottle(host),
    metrics=METRICS,
    optional=True,
    about="time that CPUs were throttled because of heat",
)
