"""Reads udev's database about block devices, one file per device."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from collectors.interface import host
from collectors.interface.sample import CollectorError

Properties = Mapping[str, str]


def parse(text: str) -> dict[str, str]:
    """Parse the properties of a device: lines like `E:ID_MODEL=QEMU_HARDDISK`. Other kinds are internal to udev."""
    return dict(_properties(text))


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        if line.startswith("E:"):
            name, equals, value = line[2:].partition("=")
            if equals:
                yield name, value


def block_device(database: Path, major: str, minor: str) -> Properties:
    """Return the properties of a block device; empty if udev has none or they cannot be read."""
    try:
        return parse(host.read_optional(database / f"b{major}:{minor}") or "")
    except CollectorError:
        return {}


def generation(database: Path) -> int | None:
    """Return a value that changes with any device: udev replaces files by rename. None without udev."""
    try:
        return database.stat().st_mtime_ns
    except OSError:
        return None
