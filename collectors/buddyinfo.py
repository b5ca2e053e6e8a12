"""Free memory blocks by size, an indicator of fragmentation, from <procfs>/buddyinfo."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint

METRICS = Table(
    Metric(
        "node_buddyinfo_blocks",
        "gauge",
        "Count of free blocks according to size.",
        "<procfs>/buddyinfo",
        ("node", "zone", "size"),
    )
)


def parse(text: str) -> Iterator[Family]:
    """Yield one sample per zone and size; size n means blocks of 2^n pages."""
    samples: dict[tuple[str, str, str], float] = {}
    for node, zone, counts in guard.readable(filter(None, text.splitlines()), _zone):
        for size, count in enumerate(counts):
            samples[node, zone, str(size)] = count
    if not samples:
        raise CollectorError("buddyinfo: no zone in it")
    yield METRICS.family("node_buddyinfo_blocks", samples.items())


def _zone(line: str) -> tuple[str, str, list[int]]:
    """Return node, zone and counts of a line like `Node 0, zone   Normal   5259   3504`."""
    match line.replace(",", " ").split():
        case ["Node", node, "zone", zone, *counts] if counts:
            try:
                return node, zone, [parse_uint(count) for count in counts]
            except ValueError as error:
                raise CollectorError(f"buddyinfo: node {node} zone {zone}: {error}") from error
    raise CollectorError(f"buddyinfo: unexpected line {line[:80]!r}")


class BuddyInfo:
    """The `buddyinfo` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "buddyinfo"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(
    build=lambda host, _: BuddyInfo(host),
    metrics=METRICS,
    about="free memory blocks by size",
    on=False,
)
