"""Btrfs file systems: space by type and profile, commits, from <sysfs>/fs/btrfs; devices and their errors by ioctl (linux/btrfs.h)."""

import errno
import fcntl
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, MetricType
from collectors.shared import mounts, sysfs

_FS = "<sysfs>/fs/btrfs/<uuid>"
_LAYOUT = ("block_group_type", "mode")
_DEVICE = ("device", "btrfs_dev_uuid")


def _row(
    name: str, about: str, file: str, labels: Sequence[str] = (), kind: MetricType = "gauge"
) -> Metric:
    unit = next((u for u in ("bytes", "seconds") if name.removesuffix("_total").endswith(u)), "")
    source = file if file.endswith("ioctl") else f"{_FS}/{file}"
    return Metric(f"node_btrfs_{name}", kind, about, source, ("uuid", *labels), unit)


METRICS = Table(
    _row("info", "Filesystem information", "label", ("label",)),
    _row("global_rsv_size_bytes", "Size of global reserve.", "allocation/global_rsv_size"),
    _row("commits_total", "The total number of commits that have occurred.", "commit_stats", (), "counter"),
    _row("last_commit_seconds", "Duration of the most recent commit, in seconds.", "commit_stats"),
    _row("max_commit_seconds", "Duration of the slowest commit, in seconds.", "commit_stats"),
    _row("commit_seconds_total", "Sum of the duration of all commits, in seconds.", "commit_stats", (), "counter"),
    _row("reserved_bytes", "Amount of space reserved for a data type", "allocation/*/bytes_reserved", ("block_group_type",)),
    _row("used_bytes", "Amount of used space by a layout/data type", "allocation/*/*/used_bytes", _LAYOUT),
    _row("size_bytes", "Amount of space allocated for a layout/data type", "allocation/*/*/total_bytes", _LAYOUT),
    _row("allocation_ratio", "Data allocation ratio for a layout/data type", "allocation/*", _LAYOUT),
    _row("device_size_bytes", "Size of a device that is part of the filesystem.", "devices/*/size", _DEVICE),
    _row("device_unused_bytes", "Unused bytes unused on a device that is part of the filesystem.", "Btrfs' ioctl", _DEVICE),
    _row("device_errors_total", "Errors reported for the device", "Btrfs' ioctl", ("type", *_DEVICE), "counter"),
)  # fmt: skip
_COMMITS = {
    "commits": ("commits_total", 1),
    "last_commit_ms": ("last_commit_seconds", 1000),
    "max_commit_ms": ("max_commit_seconds", 1000),
    "total_commit_ms": ("commit_seconds_total", 1000),
}
_COPIES = {
    "single": 1.0, "raid0": 1.0, "dup": 2.0, "raid1": 2.0, "raid10": 2.0, "raid1c3": 3.0, "raid1c4": 4.0
}  # fmt: skip
_PARITY = {"raid5": 1, "raid6": 2}
_SECTOR = 512
Row = tuple[str, Mapping[str, str], float]
"""A metric's name after node_btrfs_, its labels without the UUID, its value."""


def ratio(profile: str, devices: int) -> float | None:
    """Return the space on disk per byte stored; None if it is not known."""
    if (parity := _PARITY.get(profile)) is not None:
        return devices / (devices - parity) if devices > parity else None
    return _COPIES.get(profile)


FS_INFO = 0x8400941F
DEV_INFO = 0xD000941E
DEV_STATS = 0xC4089434
_SIZES = {FS_INFO: 1024, DEV_INFO: 4096, DEV_STATS: 1032}
_PATH = 3072  # offset of the path in btrfs_ioctl_dev_info_args
_ERRORS = ("write", "read", "flush", "corruption", "generation")
_MOST_DEVICES = 4096

Ioctl = Callable[[int, int, bytearray], int]


class BtrfsDevice(NamedTuple):
    """A device of a file system."""

    name: str
    uuid: str
    size: int
    used: int
    errors: dict[str, int]


def query_devices(point: str, *, ioctl: Ioctl = fcntl.ioctl) -> tuple[str, list[BtrfsDevice]]:
    """Return the UUID of the file system mounted at a directory, and its devices. Raises CollectorError."""
    try:
        descriptor = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _queried(lambda request, argument: ioctl(descriptor, request, argument))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CollectorError(f"{point}: {error.strerror}") from error


def _queried(call: Callable[[int, bytearray], int]) -> tuple[str, list[BtrfsDevice]]:
    argument = bytearray(_SIZES[FS_INFO])
    call(FS_INFO, argument)
    last, count, fsid = struct.unpack_from("=QQ16s", argument)
    found: list[BtrfsDevice] = []
    for number in range(min(last, _MOST_DEVICES) + 1):
        if len(found) < count:
            found += _device(call, number)
    return str(UUID(bytes=fsid)), found


def _device(call: Callable[[int, bytearray], int], number: int) -> Iterator[BtrfsDevice]:
    argument = bytearray(_SIZES[DEV_INFO])
    struct.pack_into("=Q", argument, 0, number)
    try:
        call(DEV_INFO, argument)
    except OSError as error:
        if error.errno == errno.ENODEV:  # numbers have gaps
            return
        raise
    _, identity, used, size = struct.unpack_from("=Q16sQQ", argument)
    path = bytes(argument[_PATH:]).partition(b"\0")[0].decode(errors="replace")
    counters = bytearray(_SIZES[DEV_STATS])
    struct.pack_into("=QQ", counters, 0, number, len(_ERRORS))
    call(DEV_STATS, counters)
    errors = dict(zip(_ERRORS, struct.unpack_from("=5Q", counters, 24), strict=True))
    yield BtrfsDevice(path.rpartition("/")[2], str(UUID(bytes=identity)), size, used, errors)


class Btrfs:
    """The `btrfs` collector."""

    def __init__(
        self,
        machine: host.Host,
        *,
        query: Callable[[str], tuple[str, list[BtrfsDevice]]] = query_devices,
    ) -> None:
        self._directory = f"{machine.sysfs}/fs/btrfs"
        self._mountinfo = [machine.procfs / process / "mountinfo" for process in ("1", "self")]
        self._root = str(machine.rootfs).rstrip("/")
        self._query = query

    def collect(self) -> Iterator[Family]:
        """Read the sources now."""
        rows: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        uuids = [name for name in sysfs.listing(self._directory) if "-" in name]
        mounted = self._mounted() if uuids else {}
        for uuid in uuids:
            path = f"{self._directory}/{uuid}"
            for name, labels, value in (*_space(path), *_devices(path, mounted.get(uuid))):
                rows.setdefault(name, []).append(({"uuid": uuid, **labels}, value))
        for name, samples in rows.items():
            yield METRICS.partial(f"node_btrfs_{name}", samples)

    def _mounted(self) -> dict[str, list[BtrfsDevice]]:
        """Return the devices of the file systems that are mounted at accessible places, by UUID."""
        by_uuid: dict[str, list[BtrfsDevice]] = {}
        done: set[str] = set()
        for mount in self._mounts():
            if mount.kind != "btrfs" or mount.device in done:
                continue
            point = mount.point if mount.point.startswith(self._root) else self._root + mount.point
            try:
                uuid, devices = self._query(point)
            except CollectorError:
                continue  # perhaps mounted at another place too
            done.add(mount.device)
            by_uuid[uuid] = devices
        return by_uuid

    def _mounts(self) -> Iterator[mounts.Mount]:
        for path in self._mountinfo:
            try:
                text = host.read(path)
            except CollectorError:
                continue
            yield from mounts.parse(text)
            return


def _space(path: str) -> Iterator[Row]:
    yield "info", {"label": sysfs.attribute(f"{path}/label") or ""}, 1.0
    if (reserve := sysfs.number(f"{path}/allocation/global_rsv_size")) is not None:
        yield "global_rsv_size_bytes", {}, float(reserve)
    for line in (sysfs.content(f"{path}/commit_stats") or "").splitlines():
        key, _, text = line.partition(" ")
        if key in _COMMITS and text.isascii() and text.isdigit():
            name, scale = _COMMITS[key]
            yield name, {}, int(text[:20]) / scale
    count = len(sysfs.listing_optional(f"{path}/devices"))
    for kind in ("data", "metadata", "system"):
        yield from _allocation(f"{path}/allocation/{kind}", kind, count)


def _allocation(path: str, kind: str, devices: int) -> Iterator[Row]:
    if (reserved := sysfs.number(f"{path}/bytes_reserved")) is not None:
        yield "reserved_bytes", {"block_group_type": kind}, float(reserved)
    for profile in sysfs.listing_optional(path):
        labels = {"block_group_type": kind, "mode": profile}
        for file, name in (("used_bytes", "used_bytes"), ("total_bytes", "size_bytes")):
            if (value := sysfs.number(f"{path}/{profile}/{file}")) is not None:
                yield name, labels, float(value)
        known = ratio(profile, devices)
        if known is not None and sysfs.listing_optional(f"{path}/{profile}"):
            yield "allocation_ratio", labels, known


def _devices(path: str, devices: Sequence[BtrfsDevice] | None) -> Iterator[Row]:
    if devices is None:
        for name in sysfs.listing_optional(f"{path}/devices"):
            if (sectors := sysfs.number(f"{path}/devices/{name}/size")) is not None:
                yield "device_size_bytes", {"device": name}, float(sectors * _SECTOR)
        return
    for device in devices:
        labels = {"device": device.name, "btrfs_dev_uuid": device.uuid}
        yield "device_size_bytes", labels, float(device.size)
        yield "device_unused_bytes", labels, float(device.size - device.used)
        for kind, count in device.errors.items():
            yield "device_errors_total", {"type": kind, **labels}, float(count)


ENTRY = Entry(
    build=lambda host, _: Btrfs(host),
    metrics=METRICS,
    about="Btrfs file systems: space, commits, device errors",
    source="<sysfs>/fs/btrfs",
)
