"""Current and allowed CPU frequencies and the governor, from <sysfs>/devices/system/cpu/cpu*/cpufreq."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs
from collectors.shared.formats.cpulist import parse_cpu_list

_CPU = "<sysfs>/devices/system/cpu/cpu*/cpufreq"


def _hertz(name: str, about: str, file: str) -> Metric:
    return Metric(
        f"node_cpu_{name}_hertz", "gauge", f"{about} in hertz.", f"{_CPU}/{file}", ("cpu",), "hertz"
    )


# The kernel reports current and average hardware frequency of some CPUs only, and only to root.
METRICS = Table(
    _hertz("frequency", "Current CPU thread frequency", "cpuinfo_cur_freq"),
    _hertz("frequency_avg", "Average CPU thread frequency", "cpuinfo_avg_freq"),
    _hertz("frequency_min", "Minimum CPU thread frequency", "cpuinfo_min_freq"),
    _hertz("frequency_max", "Maximum CPU thread frequency", "cpuinfo_max_freq"),
    _hertz("scaling_frequency", "Current scaled CPU thread frequency", "scaling_cur_freq"),
    _hertz("scaling_frequency_min", "Minimum scaled CPU thread frequency", "scaling_min_freq"),
    _hertz("scaling_frequency_max", "Maximum scaled CPU thread frequency", "scaling_max_freq"),
    Metric(
        "node_cpu_scaling_governor",
        "gauge",
        "Current enabled CPU frequency governor.",
        f"{_CPU}/scaling_governor",
        ("cpu", "governor"),
    ),
)

_FIXED = {
    "cpuinfo_min_freq": "node_cpu_frequency_min_hertz",
    "cpuinfo_max_freq": "node_cpu_frequency_max_hertz",
}
_MOVING = {
    "cpuinfo_cur_freq": "node_cpu_frequency_hertz",
    "cpuinfo_avg_freq": "node_cpu_frequency_avg_hertz",
    "scaling_cur_freq": "node_cpu_scaling_frequency_hertz",
    "scaling_min_freq": "node_cpu_scaling_frequency_min_hertz",
    "scaling_max_freq": "node_cpu_scaling_frequency_max_hertz",
}
_KHZ = 1000.0


class Policy(NamedTuple):
    """CPUs that share a frequency, with their constant values."""

    cpus: tuple[str, ...]
    path: str
    moving: tuple[str, ...]
    """Existing files of changing values."""
    fixed: dict[str, float]
    """Hertz by metric."""
    governors: tuple[str, ...]


def policies(directory: str, names: Sequence[str]) -> list[Policy]:
    """Return the frequency policies of the CPUs in a listing of <sysfs>/devices/system/cpu."""
    members: dict[str, list[str]] = {}
    for name in names:
        cpu = name.removeprefix("cpu")
        if cpu == name or not cpu.isdigit():
            continue
        path = Path(f"{directory}/{name}/cpufreq")
        if path.is_dir():
            members.setdefault(str(path.resolve()), []).append(cpu)
    return [_policy(path, tuple(cpus)) for path, cpus in members.items()]


def _policy(path: str, cpus: tuple[str, ...]) -> Policy:
    files = sysfs.listing_optional(path)
    fixed = {
        metric: khz * _KHZ
        for file, metric in _FIXED.items()
        if (khz := sysfs.number(f"{path}/{file}")) is not None
    }
    governors = (sysfs.attribute(f"{path}/scaling_available_governors") or "").split()
    moving = tuple(file for file in _MOVING if file in files)
    return Policy(cpus, path, moving, fixed, tuple(dict.fromkeys(governors)))


class CpuFreq:
    """The `cpufreq` collector."""

    def __init__(self, machine: host.Host) -> None:
        directory = f"{machine.sysfs}/devices/system/cpu"
        self._offline = f"{directory}/offline"
        self._policies = sysfs.Derived(
            lambda listings: policies(directory, list(listings[0])),
            directory,
            f"{directory}/cpufreq",
        )

    def collect(self) -> Iterator[Family]:
        """Read the source, once per policy."""
        known = self._policies.get()
        offline = self._switched_off() if known else set()
        rows: dict[str, list[tuple[Sequence[str], float]]] = {}
        for policy in known:
            cpus = [cpu for cpu in policy.cpus if cpu not in offline]
            for metric, hertz in _frequencies(policy):
                rows.setdefault(metric, []).extend(((cpu,), hertz) for cpu in cpus)
            if chosen := sysfs.attribute(f"{policy.path}/scaling_governor"):
                rows.setdefault("node_cpu_scaling_governor", []).extend(
                    ((cpu, governor), float(governor == chosen))
                    for cpu in cpus
                    for governor in policy.governors
                )
        for metric, samples in rows.items():
            if samples:
                yield METRICS.family(metric, samples)

    def _switched_off(self) -> set[str]:
        """Return the offline CPUs, which stay in their policy with the frequencies of others."""
        return {str(cpu) for cpu in parse_cpu_list(sysfs.attribute(self._offline) or "")}


def _frequencies(policy: Policy) -> Iterator[tuple[str, float]]:
    yield from policy.fixed.items()
    for file in policy.moving:
        if (khz := sysfs.number(f"{policy.path}/{file}")) is not None:
            yield _MOVING[file], khz * _KHZ


ENTRY = Entry(
    build=lambda host, _: CpuFreq(host), metrics=METRICS, about="CPU frequencies and their governor"
)
