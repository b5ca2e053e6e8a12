"""Parses mounts from <procfs>/<pid>/mountinfo."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from collectors.interface import guard
from collectors.interface.sample import CollectorError

_ESCAPED = re.compile(r"\\(?:011|012|040|134)")
_READ_ONLY = frozenset({"ro", "emergency_ro"})
_NEVER_WRITABLE = frozenset(
    {"befs", "cramfs", "efs", "erofs", "freevxfs", "iso9660", "qnx4", "qnx6", "romfs", "squashfs"}
)
"""File systems that are read-only by nature, whatever the options of their mounts."""
_LEAST = 6
"""Fields before the tags."""
_LONGEST_NUMBER = 9
"""Digits of a number of a device; Linux has 12 bits for major and 20 for minor ones."""


class Mount(NamedTuple):
    """One line of mountinfo."""

    device: str
    major: str
    minor: str
    point: str
    kind: str
    read_only: bool
    emergency_read_only: bool
    """Whether the kernel made the file system read-only, as it does after errors. Not: by nature, or by an administrator."""


class MountLine(NamedTuple):
    """The fields of a line; names are unescaped."""

    device: str
    major: str
    minor: str
    point: str
    kind: str
    options: str
    """Those of the mount."""
    super_options: str
    """Those of the file system."""


def parse(text: str) -> Iterator[Mount]:
    """Yield mounts in the order in which they were made. A line that cannot be read is left out.

    Raises CollectorError if there are lines and none can be read.
    """
    first_is_read_only: dict[tuple[str, str], bool] = {}
    for line in lines(text):
        mount_ro, filesystem_ro = _is_read_only(line.options), _is_read_only(line.super_options)
        # An administrator's remount makes the mount itself read-only too; bind mounts of it stay writable by their options.
        administrators = first_is_read_only.setdefault((line.major, line.minor), mount_ro)
        emergency = filesystem_ro and not mount_ro and not _is_never_writable(line)
        if administrators and "emergency_ro" not in line.super_options.split(","):
            emergency = False
        yield Mount(*line[:5], read_only=mount_ro or filesystem_ro, emergency_read_only=emergency)


def lines(text: str) -> list[MountLine]:
    """Return the lines that can be read. Raises CollectorError if there are lines and none can be read."""
    return guard.readable(filter(None, text.split("\n")), _line)


def _line(line: str) -> MountLine:
    # A variable number of tags such as `shared:7` precedes the dash. Blanks in names are escaped; options may have any.
    words = line.split(" ")
    try:
        dash = words.index("-", _LEAST)
        kind, device, *super_options = words[dash + 1 :]
    except ValueError as error:
        raise CollectorError(f"mountinfo: unexpected line {line[:200]!r}") from error
    major, colon, minor = words[2].partition(":")
    if not super_options or not colon or not _is_number(major) or not _is_number(minor):
        raise CollectorError(f"mountinfo: unexpected line {line[:200]!r}")
    point, options = unescaped(words[4]), words[5]
    return MountLine(device, major, minor, point, kind, options, " ".join(super_options))


def _is_never_writable(line: MountLine) -> bool:
    """Return whether a file system is read-only by nature: an overlay is so without a layer for writes."""
    if line.kind == "overlay":
        return not any(o.startswith("upperdir=") for o in line.super_options.split(","))
    return line.kind in _NEVER_WRITABLE


def _is_read_only(options: str) -> bool:
    return not _READ_ONLY.isdisjoint(options.split(","))


def _is_number(text: str) -> bool:
    """Return whether it is a major or minor number as os.makedev takes it: an int of C."""
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER


def unescaped(path: str) -> str:
    """Return a path with escaped blanks, tabs, newlines and backslashes restored; the kernel escapes no others."""
    if "\\" not in path:
        return path
    return _ESCAPED.sub(lambda match: chr(int(match.group()[1:], 8)), path)
