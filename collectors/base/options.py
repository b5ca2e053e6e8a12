"""Flags of collectors that are imported on demand: the command line is read without importing these."""

from dataclasses import dataclass

from collectors.formats.patterns import regexp
from plimsoll.flags import option

IPVS_LABELS = (
    "local_address", "local_port", "remote_address", "remote_port", "proto", "local_mark"
)  # fmt: skip


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
class TapestatsOptions:
    """The flags of `tapestats`."""

    tapestats_ignored_devices: str = option(
        "collector.tapestats.ignored-devices",
        "^$",
        "leave out devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
