"""The NUMA nodes of <sysfs>/devices/system/node: their numbers and directories, in the order of the numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from collectors.readers.sysfs import Derived, Listing


class NumaNode(NamedTuple):
    """A node that is online."""

    number: int
    directory: str


def numa_nodes(sysfs_root: Path) -> Derived[tuple[NumaNode, ...]]:
    """The nodes, looked up again when one comes or goes. SourceAbsentError from a kernel without NUMA."""
    base = sysfs_root / "devices/system/node"

    def derive(listings: Sequence[Listing]) -> tuple[NumaNode, ...]:
        names = (name for name in listings[0] if name.startswith("node"))
        numbers = (name.removeprefix("node") for name in names)
        return tuple(
            NumaNode(number, f"{base}/node{number}")
            for number in sorted(int(text) for text in numbers if text.isdigit())
        )

    return Derived(derive, base)
