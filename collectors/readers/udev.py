"""What udev knows about block devices, from its database, one file a device."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from collectors.base import host
from collectors.base.sample import CollectorError

Properties = Mapping[str, str]


def parse(text: str) -> dict[str, str]:
    """The properties of a device: lines like `E:ID_MODEL=QEMU_HARDDISK`. Those of other kinds are for udev itself."""
    return dict(_properties(text))


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        if line.startswith("E:"):
            name, equals, value = line[2:].partition("=")
            if equals:
                yield name, value


def block_device(database: Path, major: str, minor: str) -> Properties:
    """What is known of a block device; nothing where udev has not seen it, or its files cannot be read."""
    try:
        return parse(host.read_optional(database / f"b{major}:{minor}") or "")
    except CollectorError:
        return {}


def generation(database: Path) -> int | None:
    """Another number once any device changed: udev replaces a device's file by renaming a new one. None without udev."""
    try:
        return database.stat().st_mtime_ns
    except OSError:
        return None
