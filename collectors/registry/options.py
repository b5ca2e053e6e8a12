"""Flags of collectors that are imported on demand: the command line is read without importing these."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Any

from collectors.shared.formats.cpuranges import cpu_ranges
from collectors.shared.formats.patterns import regexp
from plimsoll.flags import choice, count, duration, option, port

IPVS_LABELS = (
    "local_address", "local_port", "remote_address", "remote_port", "proto", "local_mark"
)  # fmt: skip


_SYSCTL = re.compile(r"[a-zA-Z0-9_-]+(?:[./][a-zA-Z0-9_:@-]+)+?(?::[a-zA-Z0-9_,]+)?", re.ASCII)


def _sysctl(text: str) -> str:
    if _SYSCTL.fullmatch(text) is None:
        raise ValueError(f"not a kernel parameter: {text!r} (write it like vm.swappiness)")
    return text


def _ipvs_labels(text: str) -> str:
    chosen = set(filter(None, text.split(",")))
    if unknown := sorted(chosen - set(IPVS_LABELS)):
        raise ValueError(f"unknown labels {', '.join(unknown)}; there are {', '.join(IPVS_LABELS)}")
    return ",".join(label for label in IPVS_LABELS if label in chosen)


@dataclass(frozen=True, slots=True)
class BcacheOptions:
    """The flags of `bcache`."""

    bcache_priority_stats: bool = option(
        "collector.bcache.priorityStats",
        False,
        "also read the cache devices' priority statistics, which is expensive",
    )


@dataclass(frozen=True, slots=True)
class IpvsOptions:
    """The flags of `ipvs`."""

    ipvs_backend_labels: str = option(
        "collector.ipvs.backend-labels",
        ",".join(IPVS_LABELS),
        "labels of backends, comma-separated; backends that differ in other labels are added up",
        metavar="LABELS",
        parse=_ipvs_labels,
    )


def _ntp_version(text: str) -> int:
    if text not in {"2", "3", "4"}:
        raise ValueError(f"not a version of NTP: {text!r} (2, 3 or 4)")
    return int(text)


def _ntp_port(text: str) -> int:
    if (number := port(text)) == 0:
        raise ValueError("0 is no port of a server")
    return number


@dataclass(frozen=True, slots=True)
class NtpOptions:
    """The flags of `ntp`."""

    ntp_server: str = option(
        "collector.ntp.server", "127.0.0.1", "address of the NTP server", metavar="ADDRESS"
    )
    ntp_port: int = option(
        "collector.ntp.server-port",
        123,
        "UDP port of the NTP server",
        metavar="PORT",
        parse=_ntp_port,
    )
    ntp_version: int = option(
        "collector.ntp.protocol-version",
        4,
        "version of the protocol",
        metavar="VERSION",
        parse=_ntp_version,
    )
    ntp_is_local: bool = option(
        "collector.ntp.server-is-local",
        False,
        "allow a server that is not on a loopback address; confirms that it is not a public one",
    )
    ntp_ttl: int = option(
        "collector.ntp.ip-ttl",
        1,
        "most routers between here and the server, plus 1",
        metavar="NUMBER",
        parse=count,
    )
    ntp_max_distance: float = option(
        "collector.ntp.max-distance",
        3.46608,
        "largest distance to the reference clock that node_ntp_sanity accepts",
        metavar="DURATION",
        parse=duration,
    )
    ntp_tolerance: float = option(
        "collector.ntp.local-offset-tolerance",
        0.001,
        "difference between the clocks that node_ntp_sanity accepts",
        metavar="DURATION",
        parse=duration,
    )

    def __post_init__(self) -> None:
        if not self.ntp_is_local and not _is_loopback(self.ntp_server):
            raise ValueError(
                f"--collector.ntp.server: {self.ntp_server!r} is no loopback address; --collector.ntp.server-is-local allows it"
            )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


_TRACEPOINT = re.compile(r"[a-zA-Z0-9_-]+:[a-zA-Z0-9_-]+", re.ASCII)


def _tracepoint(text: str) -> str:
    if _TRACEPOINT.fullmatch(text) is None:
        raise ValueError(f"not a tracepoint: {text!r} (write it like sched:sched_process_exec)")
    return text


PERF_EVENTS = {
    "hardware": "CpuCycles CpuInstr CacheRef CacheMisses BranchInstr BranchMisses StalledCyclesFrontend StalledCyclesBackend RefCpuCycles",
    "software": "PageFault ContextSwitch CpuMigration MinorFault MajorFault",
    "cache": (
        "L1DataReadHit L1DataReadMiss L1DataWriteHit L1InstrReadMiss InstrTLBReadHit InstrTLBReadMiss DataTLBReadHit "
        "DataTLBReadMiss DataTLBWriteHit DataTLBWriteMiss LLReadHit LLReadMiss LLWriteHit LLWriteMiss BPUReadHit BPUReadMiss"
    ),
}
"""Events by the flag that chooses them."""


def _profilers(kind: str) -> Any:
    return option(
        f"collector.perf.{kind}-profilers",
        (),
        f"count only these {kind} events (repeatable): {PERF_EVENTS[kind].replace(' ', ', ')}",
        metavar="NAME",
        parse=choice(*PERF_EVENTS[kind].split()),
    )


@dataclass(frozen=True, slots=True)
class PerfOptions:
    """The flags of `perf`."""

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
    perf_hardware: tuple[str, ...] = _profilers("hardware")
    perf_no_software: bool = option(
        "collector.perf.disable-software-profilers", False, "count no software events"
    )
    perf_software: tuple[str, ...] = _profilers("software")
    perf_no_cache: bool = option(
        "collector.perf.disable-cache-profilers", False, "count no cache events"
    )
    perf_cache: tuple[str, ...] = _profilers("cache")


@dataclass(frozen=True, slots=True)
class RunitOptions:
    """The flags of `runit`."""

    runit_directory: str = option(
        "collector.runit.servicedir",
        "/etc/service",
        "runit's service directory on the host",
        metavar="DIR",
    )


def _supervisord_url(text: str) -> str:
    if not text.startswith(("http://", "unix:///")):
        raise ValueError(
            f"not a URL: {text!r} (write it like http://localhost:9001/RPC2 or unix:///run/supervisor.sock)"
        )
    return text


@dataclass(frozen=True, slots=True)
class SupervisordOptions:
    """The flags of `supervisord`."""

    supervisord_url: str = option(
        "collector.supervisord.url",
        "http://localhost:9001/RPC2",
        "address of supervisord's XML-RPC interface; unix:///PATH for a socket on the host",
        env="SUPERVISORD_URL",
        metavar="URL",
        parse=_supervisord_url,
    )


@dataclass(frozen=True, slots=True)
class SysctlOptions:
    """The flags of `sysctl`."""

    sysctl_include: tuple[str, ...] = option(
        "collector.sysctl.include",
        (),
        "kernel parameter with numbers to export, such as vm.swappiness or fs.file-nr:total,current,max (repeatable)",
        metavar="NAME",
        parse=_sysctl,
    )
    sysctl_include_info: tuple[str, ...] = option(
        "collector.sysctl.include-info",
        (),
        "kernel parameter to export as text (repeatable)",
        metavar="NAME",
        parse=_sysctl,
    )


@dataclass(frozen=True, slots=True)
class SystemdOptions:
    """The flags of `systemd`."""

    systemd_include: str = option(
        "collector.systemd.unit-include",
        ".+",
        "export only units whose whole name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    systemd_exclude: str = option(
        "collector.systemd.unit-exclude",
        r".+\.(automount|device|mount|scope|slice)",
        "leave out units whose whole name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    systemd_tasks: bool = option(
        "collector.systemd.enable-task-metrics",
        False,
        "also export the number of tasks of services",
    )
    systemd_restarts: bool = option(
        "collector.systemd.enable-restarts-metrics", False, "also export restarts of services"
    )
    systemd_start_times: bool = option(
        "collector.systemd.enable-start-time-metrics", False, "also export start times of units"
    )


@dataclass(frozen=True, slots=True)
class TapestatsOptions:
    """The flags of `tapestats`."""

    tapestats_ignored_devices: str = option(
        "collector.tapestats.ignored-devices",
        "^$",
        "leave out devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )


@dataclass(frozen=True, slots=True)
class WifiOptions:
    """The flags of `wifi`."""

    wifi_fixtures: str = option(
        "collector.wifi.fixtures",
        "",
        "read the JSON files in this directory instead of the kernel, for tests",
        metavar="DIR",
    )
