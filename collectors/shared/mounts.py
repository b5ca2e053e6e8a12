"""Parses mounts from <procfs>/<pid>/mountinfo."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from collectors.interface.sample import CollectorError

_ESCAPED = re.compile(r"\\(?:011|012|040|134)")
_READ_ONLY = frozenset({"ro", "emergency_ro"})


class Mount(NamedTuple):
    """One line of mountinfo."""

    device: str
    major: str
    minor: str
    point: str
    kind: str
    read_only: bool
    emergency_read_only: bool
    """Whether the file system is read-only although this mount is writable by its own options: the kernel does so after errors."""


def parse(text: str) -> Iterator[Mount]:
    """Yield mounts in the order in which they were made."""
    for line in text.split("\n"):
        if line:
            yield _mount(line)


def _mount(line: str) -> Mount:
    # A variable number of tags such as `shared:7` precedes the dash; blanks in names are escaped.
    match line.split(" "):
        case [_, _, number, _, point, options, *_, "-", kind, device, super_options]:
            major, colon, minor = number.partition(":")
            if colon and _is_number(major) and _is_number(minor):
                mount_ro, filesystem_ro = _is_read_only(options), _is_read_only(super_options)
                return Mount(
                    device,
                    major,
                    minor,
                    unescaped(point),
                    kind,
                    read_only=mount_ro or filesystem_ro,
                    emergency_read_only=filesystem_ro and not mount_ro,
                )
        case _:
            pass
    raise CollectorError(f"mountinfo: unexpected line {line[:200]!r}")


def _is_read_only(options: str) -> bool:
    return not _READ_ONLY.isdisjoint(options.split(","))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def unescaped(path: str) -> str:
    """Return a path with escaped blanks, tabs, newlines and backslashes restored; the kernel escapes no others."""
    if "\\" not in path:
        return path
    return _ESCAPED.sub(lambda match: chr(int(match.group()[1:], 8)), path)
