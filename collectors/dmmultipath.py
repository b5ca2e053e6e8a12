"""Multipath devices of the device mapper, and the state of their paths, from <sysfs>/block/dm-*."""

from collections.abc import Iterator
from typing import NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs

_BLOCK = "<sysfs>/block/dm-*"
_DEVICE = ("device", "sysfs_name")


def _row(name: str, about: str, file: str, labels: tuple[str, ...] = _DEVICE) -> Metric:
    unit = "bytes" if name.endswith("bytes") else ""
    return Metric(f"node_dmmultipath_{name}", "gauge", about, f"{_BLOCK}/{file}", labels, unit)


METRICS = Table(
    _row(
        "device_info",
        "Non-numeric information about a DM-multipath device.",
        "dm/uuid",
        (*_DEVICE, "uuid"),
    ),
    _row(
        "device_active",
        "Whether the multipath device-mapper device is active (1) or suspended (0).",
        "dm/suspended",
    ),
    _row(
        "device_size_bytes",
        "Size of the multipath device in bytes, read from /sys/block/<dm>/size.",
        "size",
    ),
    _row("device_paths", "Number of paths for a multipath device.", "slaves"),
    _row(
        "device_paths_active",
        "Number of paths in active state (SCSI running or NVMe live) for a multipath device.",
        "slaves/*/device/state",
    ),
    _row(
        "device_paths_failed",
        "Number of paths not in active state for a multipath device.",
        "slaves/*/device/state",
    ),
    _row(
        "path_state",
        "Reports the underlying device state for a multipath path, as read from /sys/block/<dev>/device/state.",
        "slaves/*/device/state",
        ("device", "path", "state"),
    ),
)
_MULTIPATH = "mpath-"
_ACTIVE = frozenset({"running", "live"})
_SECTOR = 512


class Device(NamedTuple):
    """A multipath device as it is now; None for what cannot be read."""

    name: str
    sysfs_name: str
    uuid: str
    suspended: int | None
    sectors: int | None
    paths: dict[str, str]


class DmMultipath:
    """The `dmmultipath` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._block = f"{machine.sysfs}/block"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        devices = list(self._devices())
        info = (((d.name, d.sysfs_name, d.uuid), 1.0) for d in devices)
        yield METRICS.family("node_dmmultipath_device_info", info)
        numbers: dict[str, list[tuple[tuple[str, str], float]]] = {}
        for device in devices:
            for metric, value in _numbers(device):
                numbers.setdefault(metric, []).append(((device.name, device.sysfs_name), value))
        for metric, rows in numbers.items():
            yield METRICS.family(f"node_dmmultipath_{metric}", rows)
        yield METRICS.family(
            "node_dmmultipath_path_state",
            (((d.name, path, state), 1.0) for d in devices for path, state in d.paths.items()),
        )

    def _devices(self) -> Iterator[Device]:
        for entry in sysfs.listing(self._block):
            directory = f"{self._block}/{entry}"
            if not entry.startswith("dm-"):
                continue
            uuid = sysfs.attribute(f"{directory}/dm/uuid") or ""
            if uuid.startswith(_MULTIPATH):
                yield Device(
                    sysfs.attribute(f"{directory}/dm/name") or "",
                    entry,
                    uuid,
                    sysfs.number(f"{directory}/dm/suspended"),
                    sysfs.number(f"{directory}/size"),
                    {
                        path: sysfs.attribute(f"{self._block}/{path}/device/state") or "unknown"
                        for path in sysfs.listing_optional(f"{directory}/slaves")
                    },
                )


def _numbers(device: Device) -> Iterator[tuple[str, float]]:
    if device.suspended is not None:
        yield "device_active", float(device.suspended != 1)
    if device.sectors is not None:
        yield "device_size_bytes", float(device.sectors * _SECTOR)
    active = sum(state in _ACTIVE for state in device.paths.values())
    yield "device_paths", float(len(device.paths))
    yield "device_paths_active", float(active)
    yield "device_paths_failed", float(len(device.paths) - active)


ENTRY = Entry(
    build=lambda host, _: DmMultipath(host),
    metrics=METRICS,
    about="multipath devices of the device mapper",
    source="<sysfs>/block",
)
