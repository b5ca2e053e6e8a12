"""Facts about block devices from udev and sysfs, for the `diskstats` collector."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from collectors.interface import host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_float

_UDEV = "<udev>/b<major>:<minor>"
Properties = Mapping[str, str]


def _ata(name: str, text: str) -> Metric:
    return Metric(f"node_disk_ata_{name}", "gauge", text, _UDEV, ("device",))


# For ATA disks: udev property to metric.
_ATA = {
    "ID_ATA_WRITE_CACHE": _ata("write_cache", "ATA disk has a write cache."),
    "ID_ATA_WRITE_CACHE_ENABLED": _ata(
        "write_cache_enabled", "ATA disk has its write cache enabled."
    ),
    "ID_ATA_ROTATION_RATE_RPM": _ata(
        "rotation_rate_rpm", "ATA disk rotation rate in RPMs (0 for SSDs)."
    ),
}
METRICS = Table(
    Metric(
        "node_disk_info",
        "gauge",
        "Info of /sys/block/<block_device>.",
        f"{_UDEV}, <sysfs>/block/*/queue/rotational",
        ("device", "major", "minor", "path", "wwn", "model", "serial", "revision", "rotational"),
    ),
    Metric(
        "node_disk_filesystem_info",
        "gauge",
        "Info about disk filesystem.",
        _UDEV,
        ("device", "type", "usage", "uuid", "version"),
    ),
    Metric(
        "node_disk_device_mapper_info",
        "gauge",
        "Info about disk device mapper.",
        _UDEV,
        ("device", "name", "uuid", "vg_name", "lv_name", "lv_layer"),
    ),
    *_ATA.values(),
)

_FILESYSTEM = ("ID_FS_TYPE", "ID_FS_USAGE", "ID_FS_UUID", "ID_FS_VERSION")
_MAPPER = ("DM_NAME", "DM_UUID", "DM_VG_NAME", "DM_LV_NAME", "DM_LV_LAYER")
# The printed serial number, else the bus's, else virtio's.
_SERIALS = ("SCSI_IDENT_SERIAL", "ID_SERIAL_SHORT", "ID_SERIAL")


@dataclass(frozen=True, slots=True)
class Disk:
    """A block device as described by udev and sysfs."""

    device: str
    major: str
    minor: str
    properties: Properties
    rotational: bool


def families(disks: Iterable[Disk]) -> Iterator[Family]:
    """Yield the families of all disks, each with the disks that have a value."""
    disks = list(disks)
    yield from _family("node_disk_info", ((_info(disk), 1.0) for disk in disks))
    for name, keys in (
        ("node_disk_filesystem_info", _FILESYSTEM),
        ("node_disk_device_mapper_info", _MAPPER),
    ):
        rows = (
            ((disk.device, *(disk.properties.get(key, "") for key in keys)), 1.0)
            for disk in disks
            if disk.properties.get(keys[0])
        )
        yield from _family(name, rows)
    for key, metric in _ATA.items():
        yield from _family(metric.name, _numbers(disks, key))


def _family(name: str, rows: Iterable[tuple[tuple[str, ...], float]]) -> Iterator[Family]:
    samples = list(rows)
    if samples:
        yield METRICS.family(name, samples)


def _info(disk: Disk) -> tuple[str, ...]:
    known = disk.properties
    serial = next((known[key] for key in _SERIALS if known.get(key)), "")
    return (
        *(disk.device, disk.major, disk.minor),
        *(known.get(key, "") for key in ("ID_PATH", "ID_WWN", "ID_MODEL")),
        *(serial, known.get("ID_REVISION", ""), str(int(disk.rotational))),
    )


def _numbers(disks: Iterable[Disk], key: str) -> Iterator[tuple[tuple[str], float]]:
    """Return a number per ATA disk whose udev property is one."""
    for disk in disks:
        if disk.properties.get("ID_ATA"):
            try:
                yield (disk.device,), parse_float(disk.properties.get(key, ""))
            except ValueError:
                continue


def parse_properties(text: str) -> dict[str, str]:
    """Parse the properties of a device: lines like `E:ID_MODEL=QEMU_HARDDISK`. Other kinds are internal to udev."""
    return dict(_properties(text))


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        if line.startswith("E:"):
            name, equals, value = line[2:].partition("=")
            if equals:
                yield name, value


def properties_of(database: Path, major: str, minor: str) -> Properties:
    """Return the properties of a block device; empty if udev has none or they cannot be read."""
    try:
        return parse_properties(host.read_optional(database / f"b{major}:{minor}") or "")
    except CollectorError:
        return {}


def generation(database: Path) -> int | None:
    """Return a value that changes with any device: udev replaces files by rename. None without udev."""
    try:
        return database.stat().st_mtime_ns
    except OSError:
        return None
