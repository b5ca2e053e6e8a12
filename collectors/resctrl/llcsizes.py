"""Sizes of last level caches (L3) by id, from <sysfs>/devices/system/cpu/cpu*/cache."""

from collections.abc import Mapping
from pathlib import Path

from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_uint

_L3 = 3
_KIBIBYTE = 1024


def parse_size(text: str) -> int | None:
    """Parse the kernel's cache sizes, `61440K`, as bytes; None for anything else."""
    try:
        return parse_uint(text.strip().removesuffix("K")) * _KIBIBYTE if "K" in text else None
    except ValueError:
        return None


class LlcSizes:
    """Cache sizes, read again only when a CPU is added or removed."""

    def __init__(self, sysfs_root: Path) -> None:
        self._base = f"{sysfs_root}/devices/system/cpu"
        self._online: str | None = None
        self._sizes: Mapping[str, int] = {}

    def get(self) -> Mapping[str, int]:
        """Return bytes by cache id. Caches without an id, as in some virtual machines, are omitted."""
        online = sysfs.attribute(f"{self._base}/online")
        if online is None or online != self._online:
            self._sizes = self._find()
            self._online = online
        return self._sizes

    def _find(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for cpu in sysfs.listing_optional(self._base):
            directory = f"{self._base}/{cpu}/cache"
            for index in sysfs.listing_optional(directory) if cpu[3:].isdigit() else ():
                if sysfs.number(f"{directory}/{index}/level") != _L3:
                    continue
                cache = sysfs.number(f"{directory}/{index}/id")
                size = parse_size(sysfs.attribute(f"{directory}/{index}/size") or "")
                if cache is not None and size is not None:
                    sizes.setdefault(str(cache), size)
        return sizes
