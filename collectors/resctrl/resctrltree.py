"""A mounted resctrl file system: control and monitor groups, their counters and limits."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from collectors.interface import guard, host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.resctrl.formats import Cell, ControlGroup, Group, Reading, Unread, parse_reading
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_hex, parse_uint

DEFAULT_GROUP = "/"
"""Name of the default control group, the root directory."""

_DOMAIN = "mon_L3_"  # mon_sub_L3_* below it are parts of the same numbers with sub-NUMA clustering
_NO_GROUPS = frozenset({"info", "mon_data", "mon_groups"})
_CACHES = ("L2", "L3")


class _Directory(NamedTuple):
    identity: tuple[int, int]
    name: str
    path: Path


class _File(NamedTuple):
    """Path of a counter below mon_data, the same in all groups."""

    cell: Cell
    path: str


@guard.some
def parse_schemata(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield resource, domain and value of each limit: `L3:0=fffff;1=3c0`, `MB:0=100;1=  20`."""
    for line in text.splitlines():
        resource, _, limits = line.strip().partition(":")
        if limits.strip() == "uninitialized":
            continue  # about to become a pseudo-locked region
        base = parse_hex if resource.startswith(_CACHES) else parse_uint
        try:
            pairs = [limit.partition("=") for limit in limits.split(";")]
            found = [(str(parse_uint(d.strip())), base(v.strip())) for d, _, v in pairs]
        except ValueError as error:
            guard.skip(f"schemata: {line.strip()[:80]!r}: {error}", "node_resctrl_schemata")
            continue
        for domain, value in found:
            yield resource, domain, value


class Tree:
    """The file system at a mount point. Read only; the agent never mounts it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def groups(self, events: Sequence[str]) -> list[ControlGroup]:
        """Yield each group with its counters; those of a control group are read before its monitor groups'."""
        files = self._files(events)
        return [_control(directory, files) for directory in self._controls()]

    def schemata(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield control group, resource, domain and value of each limit."""
        for group in self._controls():
            for resource, domain, value in guard.attempt(_limits(group)):
                yield group.name, resource, domain, value

    def events(self) -> list[str]:
        """Return the names of counter files; none if the hardware only supports limits."""
        return (sysfs.attribute(f"{self._root}/info/L3_MON/mon_features") or "").split()

    def rmids(self) -> int | None:
        """Return the maximum number of monitored groups."""
        return sysfs.number(f"{self._root}/info/L3_MON/num_rmids")

    def check(self) -> None:
        """Raise SourceAbsentError if it is not mounted: the directory exists whenever the kernel supports it."""
        if not (self._root / "info").is_dir():
            raise SourceAbsentError(f"{self._root}: resctrl is not mounted")

    def _controls(self) -> list[_Directory]:
        try:
            status = self._root.stat()
        except OSError as error:
            raise CollectorError(f"{self._root}: {error.strerror}") from error
        root = _Directory((status.st_dev, status.st_ino), DEFAULT_GROUP, self._root)
        return [root, *(d for d in _directories(self._root) if d.name not in _NO_GROUPS)]

    def _files(self, events: Sequence[str]) -> list[_File]:
        names = (d.name for d in _directories(self._root / "mon_data"))
        domains = [name for name in names if name.startswith(_DOMAIN)]
        return [
            # Unlike elsewhere in the kernel, the domain's number is padded to two digits.
            _File((str(int(number)), event), f"{_DOMAIN}{number}/{event}")
            for number in (name.removeprefix(_DOMAIN) for name in domains)
            if number.isascii() and number.isdigit()
            for event in events
        ]


def _limits(group: _Directory) -> Iterator[tuple[str, str, int]]:
    # Groups may be removed concurrently, and monitor groups have no limits.
    if (text := host.read_optional(group.path / "schemata")) is not None:
        yield from parse_schemata(text)


def _control(directory: _Directory, files: Sequence[_File]) -> ControlGroup:
    readings = _readings(directory, files)
    monitors = [
        Group(leaf.identity, leaf.name, _readings(leaf, files))
        for leaf in _directories(directory.path / "mon_groups")
    ]
    return ControlGroup(directory.identity, directory.name, readings, monitors)


def _readings(group: _Directory, files: Sequence[_File]) -> dict[Cell, Reading]:
    base = group.path / "mon_data"
    readings: dict[Cell, Reading] = {}
    for cell, path in files:
        try:
            if (text := host.read_optional(base / path)) is not None:
                readings[cell] = parse_reading(text)
        except CollectorError as error:
            guard.skip(error)
            readings[cell] = Unread.ERROR
    return readings


def _directories(path: Path) -> list[_Directory]:
    """Return the subdirectories by name; empty if the directory does not exist, or cannot be read and is left out."""
    try:
        with os.scandir(path) as entries:
            listed = sorted((e.name, e.inode()) for e in entries if e.is_dir(follow_symlinks=False))
            device = path.stat().st_dev
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        guard.skip(f"{path}: {error.strerror}")
        return []
    return [_Directory((device, inode), _readable(name), path / name) for name, inode in listed]


def _readable(name: str) -> str:
    """Return a group's name as text: names may be any bytes, and must stay distinct."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
