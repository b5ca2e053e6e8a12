"""NUMA nodes from <sysfs>/devices/system/node: numbers and directories, ordered by number."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from collectors.shared.sysfs import Derived, Listing


class NumaNode(NamedTuple):
    """An online node."""

    number: int
    directory: str


def numa_nodes(sysfs_root: Path) -> Derived[tuple[NumaNode, ...]]:
    """Return the nodes, updated when one is added or removed. Raises SourceAbsentError on a kernel without NUMA."""
    base = sysfs_root / "devices/system/node"

    def derive(listings: Sequence[Listing]) -> tuple[NumaNode, ...]:
        names = (name for name in listings[0] if name.startswith("node"))
        numbers = (name.removeprefix("node") for name in names)
        return tuple(
            NumaNode(number, f"{base}/node{number}")
            for number in sorted(int(text) for text in numbers if text.isascii() and text.isdigit())
        )

    return Derived(derive, base)
