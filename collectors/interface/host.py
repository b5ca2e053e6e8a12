"""Paths of the node's file systems, which may be mounted elsewhere, and reads of procfs files."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from collectors.interface import guard, kernelfiles
from collectors.interface.kernelfiles import FILES
from collectors.interface.sample import CollectorError, SourceAbsentError
from plimsoll.flags import option

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP})


@dataclass(frozen=True, slots=True)
class Host:
    """The node: its name and the roots of its file systems."""

    name: str = option(
        "node.name",
        "",
        "name of this node in Kubernetes; by default the host's name",
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
    """Return the whole content of a kernel file, with one read(2) if it fits, so that it is consistent.

    Raises SourceAbsentError if the file does not exist or the kernel feature is disabled.
    """
    return _text(path, FILES.read)


def read_names(path: Path) -> str:
    """Return a file's text like `read`; bytes that are not UTF-8 become surrogates, so that names in it can be used as paths."""
    return _text(path, FILES.read, "surrogateescape")


def read_once(path: Path) -> str:
    """Return a file's text like `read`, for a file that is short-lived or not read again: it is not kept open."""
    return _text(path, kernelfiles.read_once)


def read_optional(path: Path) -> str | None:
    """Return a file's text like `read`, or None if the file does not exist."""
    try:
        return read(path)
    except SourceAbsentError:
        return None


def read_guarded(path: Path, *metrics: str) -> str | None:
    """Return a file's text like `read`; None if it does not exist, or cannot be read and is left out, of `metrics`."""
    try:
        return read_optional(path)
    except CollectorError as error:
        guard.skip(error, *metrics)
        return None


def read_each(directory: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the texts of the files that exist, by name; one that cannot be read is left out.

    Raises SourceAbsentError if none exists, and CollectorError if none can be read.
    """
    texts = guard.readable(names, lambda name: (name, read_optional(directory / name)))
    if all(text is None for _, text in texts) and len(texts) == len(names):
        raise SourceAbsentError(f"{directory}: no {' or '.join(names)}")
    return {name: text for name, text in texts if text is not None}


def _text(path: Path, content: Callable[[str], bytes], errors: str = "replace") -> str:
    try:
        return content(str(path)).decode("utf-8", errors)
    except OSError as error:
        kind = SourceAbsentError if error.errno in _ABSENT else CollectorError
        raise kind(f"{path}: {error.strerror}") from error
