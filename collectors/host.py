"""Where a node's own files are, also when they are mounted elsewhere; the one place that spells "/proc" and reads from it."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from collectors.sample import CollectorError, SourceAbsentError
from plimsoll.flags import option

_CHUNK = 1 << 16
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP})


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that is read: its name and the roots of its file systems."""

    name: str = option(
        "node.name",
        "",
        "the Kubernetes node this agent reads; the host's name where neither is given",
        env="NODE_NAME",
        metavar="NAME",
    )
    # RUF009 does not know that a Path is immutable and that option() is dataclasses.field().
    procfs: Path = option(
        "path.procfs", Path("/proc"), "the host's procfs", metavar="DIR", parse=Path
    )
    sysfs: Path = option("path.sysfs", Path("/sys"), "the host's sysfs", metavar="DIR", parse=Path)
    rootfs: Path = option(
        "path.rootfs", Path("/"), "the host's root file system", metavar="DIR", parse=Path
    )
    udev: Path = option(
        "path.udev.data", Path("/run/udev/data"), "udev's data", metavar="DIR", parse=Path
    )


def read(path: Path) -> str:
    """The whole of a kernel file. One read(2) where it fits: a second one could show another moment.

    Raises SourceAbsentError where there is no such file or the kernel has the feature switched off.
    """
    try:
        return _read(path).decode("utf-8", "replace")
    except OSError as error:
        kind = SourceAbsentError if error.errno in _ABSENT else CollectorError
        raise kind(f"{path}: {error.strerror}") from error


def read_optional(path: Path) -> str | None:
    """Like `read`, but None where there is no such file."""
    try:
        return read(path)
    except SourceAbsentError:
        return None


def _read(path: Path) -> bytes:
    # Four system calls instead of the seven of Path.read_text: a scrape reads hundreds of such files.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
