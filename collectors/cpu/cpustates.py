"""Online state of CPUs and throttle counts of cores and packages, from <sysfs>/devices/system/cpu."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from collectors.shared import sysfs
from collectors.shared.formats.cpulist import parse_cpu_list

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
        running = set(parse_cpu_list(online))
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


def _counts(
    paths: Mapping[tuple[str, str], str] | Mapping[tuple[str], str],
) -> Iterator[tuple[Sequence[str], float]]:
    for labels, path in paths.items():
        if (count := sysfs.number(path)) is not None:
            yield labels, float(count)
