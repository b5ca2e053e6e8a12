"""Size and free space of mounted file systems, without blocking on dead ones.

statvfs(2) on an NFS mount whose server is gone returns only when the server is back. Each mount is therefore queried in a
thread that can be abandoned. A mount that has not answered within `--collector.filesystem.mount-timeout` is exported with
node_filesystem_device_error 1, and is not queried again until its thread has returned.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table, shown
from collectors.interface.sample import CollectorError, Family
from collectors.shared import mounts
from collectors.shared.formats.patterns import DeviceFilter, regexp
from collectors.shared.mounts import Mount
from plimsoll import durations
from plimsoll.flags import option
from plimsoll.threads import BlockingCallRunner, Late

_STATVFS = "statvfs(2)"
_MOUNTINFO = "<procfs>/1/mountinfo"
_LABELS = ("device", "mountpoint", "fstype", "device_error")


def _row(name: str, text: str, source: str = _STATVFS, unit: str = "") -> Metric:
    return Metric(f"node_filesystem_{name}", "gauge", text, source, _LABELS, unit)


# node_exporter also has node_filesystem_purgeable_bytes, which exists on macOS only.
METRICS = Table(
    _row("size_bytes", "Filesystem size in bytes.", unit="bytes"),
    _row("free_bytes", "Filesystem free space in bytes.", unit="bytes"),
    _row("avail_bytes", "Filesystem space available to non-root users in bytes.", unit="bytes"),
    _row("files", "Filesystem total file nodes."),
    _row("files_free", "Filesystem total free file nodes."),
    _row("readonly", "Filesystem read-only status.", _MOUNTINFO),
    _row(
        "device_error", "Whether an error occurred while getting statistics for the given device."
    ),
    Metric(
        "node_filesystem_emergency_readonly",
        "gauge",
        "Whether a mount that was writable is read-only, as the kernel makes it after errors: its file system is read-only, its "
        "own options are not. A remount by an administrator changes both.",
        _MOUNTINFO,
        ("device", "mountpoint", "fstype"),
        node_exporter=False,
    ),
    Metric(
        "node_filesystem_mount_info",
        "gauge",
        "Filesystem mount information.",
        _MOUNTINFO,
        ("device", "major", "minor", "mountpoint"),
    ),
)

_POINTS = (
    r"^/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)"
)
_KINDS = (
    "^(autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|fusectl|hugetlbfs|iso9660|mqueue|nsfs|overlay|proc"
    "|procfs|pstore|rpc_pipefs|securityfs|selinuxfs|squashfs|erofs|sysfs|tracefs)$"
)
_ELSEWHERE = "another file system at this path"
_NO_ANSWER = "mountpoint timeout"
# These are served from memory, whatever the state of their disk, and need no thread.
_IN_MEMORY = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "ramfs", "tmpfs", "xfs"})


def _timeout(text: str) -> float:
    seconds = durations.duration(text)
    if seconds == 0:
        raise ValueError("must be longer than 0")
    return seconds


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector. An `include` switches off the default of its `exclude`."""

    filesystem_points_exclude: str = option(
        "collector.filesystem.mount-points-exclude",
        _POINTS,
        "regular expression of the mount points to leave out",
        metavar="REGEXP",
        parse=regexp,
    )
    filesystem_points_include: str = option(
        "collector.filesystem.mount-points-include",
        "",
        "regular expression of the mount points to export, instead of the default of mount-points-exclude",
        metavar="REGEXP",
        parse=regexp,
    )
    filesystem_kinds_exclude: str = option(
        "collector.filesystem.fs-types-exclude",
        _KINDS,
        "regular expression of the file system types to leave out",
        metavar="REGEXP",
        parse=regexp,
    )
    filesystem_kinds_include: str = option(
        "collector.filesystem.fs-types-include",
        "",
        "regular expression of the file system types to export, instead of the default of fs-types-exclude",
        metavar="REGEXP",
        parse=regexp,
    )
    filesystem_timeout: float = option(
        "collector.filesystem.mount-timeout",
        4.0,  # node_exporter's default is 5s; here the whole collector must finish within --collector.timeout
        "timeout of a mount, after which it counts as dead; shorter than --collector.timeout",
        metavar="DURATION",
        parse=_timeout,
    )

    def points(self) -> DeviceFilter:
        """Return a predicate for ignored mount points."""
        include, exclude = self.filesystem_points_include, self.filesystem_points_exclude
        return DeviceFilter(include, "" if include and exclude == _POINTS else exclude)

    def kinds(self) -> DeviceFilter:
        """Return a predicate for ignored file system types."""
        include, exclude = self.filesystem_kinds_include, self.filesystem_kinds_exclude
        return DeviceFilter(include, "" if include and exclude == _KINDS else exclude)


Answer = os.statvfs_result | str
"""A mount's statistics, or the error."""


class _Found(NamedTuple):
    """What is at a path."""

    answer: Answer
    device: int | None
    """The number of its device; None if it is unknown."""


def families(answers: Iterable[tuple[Mount, Answer]]) -> Iterator[Family]:
    """Yield the families of all mounts; those without an answer have only their error and read-only states."""
    sizes: dict[str, list[tuple[tuple[str, ...], float]]] = {metric.name: [] for metric in METRICS}
    for mount, answer in answers:
        error = answer if isinstance(answer, str) else ""
        labels = mount.device, mount.point, mount.kind, error
        sizes["node_filesystem_device_error"].append((labels, float(bool(error))))
        sizes["node_filesystem_readonly"].append((labels, float(mount.read_only)))
        sizes["node_filesystem_emergency_readonly"].append(
            (labels[:3], float(mount.emergency_read_only))
        )
        if isinstance(answer, str):
            continue
        for name, value in (
            ("size_bytes", answer.f_blocks * answer.f_frsize),
            ("free_bytes", answer.f_bfree * answer.f_frsize),
            ("avail_bytes", answer.f_bavail * answer.f_frsize),
            ("files", answer.f_files),
            ("files_free", answer.f_ffree),
        ):
            sizes[f"node_filesystem_{name}"].append((labels, value))
        info_labels = mount.device, mount.major, mount.minor, mount.point
        sizes["node_filesystem_mount_info"].append((info_labels, 1.0))
    for name, rows in sizes.items():
        if rows:
            yield METRICS.family(name, rows)


class Filesystem:
    """The `filesystem` collector."""

    def __init__(
        self,
        machine: host.Host,
        options: Options,
        *,
        statvfs: Callable[[str], os.statvfs_result] | None = None,
        device: Callable[[str], int] | None = None,
    ) -> None:
        """`statvfs`, `device`: return statistics and device number of the file system at a path; by default the kernel's."""
        self._sources = [machine.procfs / process / "mountinfo" for process in ("1", "self")]
        self._root = str(machine.rootfs).rstrip("/")
        self._points, self._kinds = options.points(), options.kinds()
        self._statvfs = statvfs or os.statvfs
        self._device = device_of if statvfs is None else device
        self._runner = BlockingCallRunner[str, _Found](
            options.filesystem_timeout, name="filesystem"
        )
        self._text: str | None = None
        self._mounts: tuple[Mount, ...] = ()
        self._certain = False

    def collect(self) -> Iterator[Family]:
        """Query every mount."""
        text = self._read()
        if text != self._text:
            skipped = guard.skipped()
            self._mounts = tuple(self._selected(text))
            self._certain = all(mount.kind in _IN_MEMORY for mount in self._mounts)
            self._text = text if guard.skipped() == skipped else None
        calls = {mount.point: partial(self._found, mount.point) for mount in self._mounts}
        found: dict[str, _Found | Late] = (
            {point: query() for point, query in calls.items()}
            if self._certain
            else self._runner.run(calls)
        )
        yield from families((m, self._answer(m, found[m.point])) for m in self._mounts)

    def _read(self) -> str:
        """Return the mounts of process 1, which are the machine's; the agent's own if those are hidden."""
        first, own = self._sources
        try:
            return host.read_names(first)
        except CollectorError:
            return host.read_names(own)

    def _selected(self, text: str) -> Iterator[Mount]:
        """Return the mounts to export, one per mount point: of several, the last one is visible."""
        seen: set[tuple[str, str, str]] = set()
        for parsed in mounts.parse(text):
            mount = parsed._replace(point=self._stripped(parsed.point))
            key = shown(mount.device), shown(mount.point), shown(mount.kind)
            if key in seen or self._points.ignores(mount.point) or self._kinds.ignores(mount.kind):
                continue
            seen.add(key)
            yield mount

    def _stripped(self, point: str) -> str:
        """Return a mount point on the host, without the path at which its root is mounted in the container."""
        inside = point.removeprefix(self._root)
        return inside or "/" if inside == "" or inside.startswith("/") else point

    def _found(self, point: str) -> _Found:
        path = f"{self._root}{point}"
        try:
            device = None if self._device is None else self._device(path)
            return _Found(self._statvfs(path), device)
        except OSError as error:
            return _Found(_as_go_says(error.strerror or str(error)), None)
        except ValueError:
            return _Found("invalid argument", None)  # a NUL, which no path has

    def _answer(self, mount: Mount, found: _Found | Late) -> Answer:
        """Return what is at a mount's path, if it is this mount."""
        if isinstance(found, Late):
            return _NO_ANSWER
        visible = found.device is None or self._is_visible(mount, found.device)
        return found.answer if visible else _ELSEWHERE

    def _is_visible(self, mount: Mount, device: int) -> bool:
        """Return whether the agent sees this mount at its path. A unit's PrivateTmp or ProtectHome puts another one there."""
        if device == os.makedev(int(mount.major), int(mount.minor)):
            return True
        # Each subvolume of Btrfs has a device number of its own, without a major number.
        return mount.kind == "btrfs" and os.major(device) == 0 and self._is_own(mount)

    def _is_own(self, mount: Mount) -> bool:
        """Return whether the agent's own mounts, where they can be read, have this one."""
        try:
            own = mounts.lines(host.read_names(self._sources[1]))
        except CollectorError:
            return True
        path = f"{self._root}{mount.point}"
        visible = [line for line in own if line.point == path]
        return not visible or visible[-1][1:3] == mount[1:3]


def device_of(path: str) -> int:
    """Return the device number of the file system at a path. Raises OSError."""
    return os.stat(path).st_dev  # noqa: PTH116 (each scrape)


def _as_go_says(reason: str) -> str:
    """Return an error text as in node_exporter's labels: `permission denied`, but `RPC version wrong`."""
    if reason[1:2].islower():
        return reason[:1].lower() + reason[1:]
    return reason


ENTRY = Entry(
    build=Filesystem,
    metrics=METRICS,
    about="size and free space of mounted file systems",
    options=Options,
    slow=True,
)
