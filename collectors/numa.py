"""Distances and free memory of NUMA nodes, from <sysfs>/devices/system/node."""

from collections.abc import Iterator

from collectors.interface import guard
from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_uint
from collectors.shared.numanodes import NumaNode, numa_nodes

_NODES = "<sysfs>/devices/system/node/node*"
METRICS = Table(
    Metric(
        "node_numa_distance",
        "gauge",
        "Relative cost of reaching the memory of one NUMA node from another; 10 is local.",
        f"{_NODES}/distance",
        ("node", "target"),
        node_exporter=False,
    ),
    Metric(
        "node_numa_memory_free_bytes",
        "gauge",
        "Memory of this NUMA node that nothing uses, caches excluded.",
        f"{_NODES}/meminfo",
        ("node",),
        "bytes",
        node_exporter=False,
    ),
    Metric(
        "node_numa_memory_size_bytes",
        "gauge",
        "Memory of this NUMA node that the kernel can use; 0 for a node of CPUs only.",
        f"{_NODES}/meminfo",
        ("node",),
        "bytes",
        node_exporter=False,
    ),
)
_KILOBYTE = 1024
_FIELDS = {
    "MemFree:": "node_numa_memory_free_bytes",
    "MemTotal:": "node_numa_memory_size_bytes",
}


def parse_distances(text: str, columns: int) -> list[int]:
    """Return a node's distances to all online nodes, ordered by number."""
    try:
        distances = [parse_uint(word) for word in text.split()]
    except ValueError as error:
        raise CollectorError(f"distance: {error}") from error
    if len(distances) != columns:
        raise CollectorError(f"distance: {len(distances)} distances for {columns} nodes")
    return distances


def parse_meminfo(text: str) -> dict[str, int]:
    """Return the exported fields of a node's meminfo in bytes: `Node 0 MemFree:  1024 kB`."""
    by_field: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) != 5 or words[2] not in _FIELDS:
            continue
        try:
            by_field[words[2]] = parse_uint(words[3]) * _KILOBYTE
        except ValueError as error:
            guard.skip(f"meminfo: {words[2]} {error}", _FIELDS[words[2]])
            continue
        if len(by_field) == len(_FIELDS):
            break
    return by_field


class Numa:
    """The `numa` collector."""

    def __init__(self, machine: Host) -> None:
        self._nodes = numa_nodes(machine.sysfs)
        self._distances: tuple[tuple[NumaNode, ...], Family | None] = ((), None)

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        nodes = self._nodes.get()
        if not nodes:
            raise SourceAbsentError("no NUMA nodes")
        distances = self._distances[1]
        if self._distances[0] != nodes:
            skipped, distances = guard.skipped(), _distances(nodes)
            self._distances = nodes if guard.skipped() == skipped else (), distances
        if distances is not None:
            yield distances
        fields = {
            node.number: parse_meminfo(text)
            for node in nodes
            if (text := sysfs.content(f"{node.directory}/meminfo")) is not None
        }
        for field, metric in _FIELDS.items():
            rows = [
                ((str(n),), by_field[field]) for n, by_field in fields.items() if field in by_field
            ]
            if rows:
                yield METRICS.family(metric, rows)


def _distances(nodes: tuple[NumaNode, ...]) -> Family | None:
    """Return the distances between nodes, which are constant while the nodes are."""
    rows: list[tuple[tuple[str, str], float]] = []
    for node in nodes:
        if (text := sysfs.content(f"{node.directory}/distance")) is None:
            continue
        try:
            distances = parse_distances(text, len(nodes))
        except CollectorError as error:
            guard.skip(error, "node_numa_distance")
            continue
        for target, distance in zip(nodes, distances, strict=True):
            rows.append(((str(node.number), str(target.number)), distance))
    return METRICS.family("node_numa_distance", rows) if rows else None


ENTRY = Entry(
    optional=True,
    build=lambda host, _: Numa(host),
    metrics=METRICS,
    about="distances and free memory of NUMA nodes",
)
