"""Flags of collectors that are imported on demand: the command line is read without importing these."""

import re
from dataclasses import dataclass

from collectors.formats.patterns import regexp
from plimsoll.flags import option

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


@dataclass(frozen=True, slots=True)
class RunitOptions:
    """The flags of `runit`."""

    runit_directory: str = option(
        "collector.runit.servicedir",
        "/etc/service",
        "runit's service directory on the host",
        metavar="DIR",
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
