"""Huge pages by size and NUMA node: total, free, reserved and surplus."""

from collections.abc import Iterator
from pathlib import Path

from collectors.interface import guard
from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_uint
from collectors.shared.numanodes import numa_nodes

_POOLS, _OF_A_NODE = "<sysfs>/kernel/mm/hugepages", "<sysfs>/devices/system/node/node*/hugepages"
METRICS = Table(
    Metric(
        "node_hugepages_pages",
        "gauge",
        "Huge pages in the pool of this size on this NUMA node, free or not, surplus ones included.",
        f"{_OF_A_NODE}/hugepages-*/nr_hugepages",
        ("node", "page_size"),
        node_exporter=False,
    ),
    Metric(
        "node_hugepages_free_pages",
        "gauge",
        "Huge pages of this size on this NUMA node that are not allocated.",
        f"{_OF_A_NODE}/hugepages-*/free_hugepages",
        ("node", "page_size"),
        node_exporter=False,
    ),
    Metric(
        "node_hugepages_surplus_pages",
        "gauge",
        "Huge pages of this size on this NUMA node above the number that was set.",
        f"{_OF_A_NODE}/hugepages-*/surplus_hugepages",
        ("node", "page_size"),
        node_exporter=False,
    ),
    Metric(
        "node_hugepages_reserved_pages",
        "gauge",
        "Free huge pages of this size that are promised to processes; the kernel does not say on which NUMA node.",
        f"{_POOLS}/hugepages-*/resv_hugepages",
        ("page_size",),
        node_exporter=False,
    ),
    Metric(
        "node_hugepages_overcommit_pages",
        "gauge",
        "Surplus huge pages of this size that the kernel may add to the pool at most.",
        f"{_POOLS}/hugepages-*/nr_overcommit_hugepages",
        ("page_size",),
        node_exporter=False,
    ),
)
_BY_NODE = {
    "node_hugepages_pages": "nr_hugepages",
    "node_hugepages_free_pages": "free_hugepages",
    "node_hugepages_surplus_pages": "surplus_hugepages",
}
_OF_THE_HOST = {
    "node_hugepages_reserved_pages": "resv_hugepages",
    "node_hugepages_overcommit_pages": "nr_overcommit_hugepages",
}
_UNITS = ("Ki", "Mi", "Gi", "Ti")


def page_size(directory: str) -> str | None:
    """Return a pool's size as in Kubernetes' resource names: `hugepages-2048kB` is `2Mi`."""
    kilobytes = directory.removeprefix("hugepages-").removesuffix("kB")
    if directory != f"hugepages-{kilobytes}kB":
        return None
    try:
        amount = parse_uint(kilobytes)
    except ValueError:
        return None
    unit = 0
    while amount and amount % 1024 == 0 and unit < len(_UNITS) - 1:
        amount, unit = amount // 1024, unit + 1
    return f"{amount}{_UNITS[unit]}"


class HugePages:
    """The `hugepages` collector."""

    def __init__(self, machine: Host) -> None:
        self._pools = machine.sysfs / "kernel/mm/hugepages"
        self._nodes = numa_nodes(machine.sysfs)

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        pools = sysfs.listing(self._pools)
        sizes = [(name, size) for name in pools if (size := page_size(name)) is not None]
        if not sizes:
            raise SourceAbsentError(f"{self._pools}: no huge pages of any size")
        nodes = self._directories()
        for metric, file in _BY_NODE.items():
            rows = [
                ((node, size), count)
                for node, directory in nodes
                for name, size in sizes
                if (count := sysfs.number(f"{directory}/{name}/{file}")) is not None
            ]
            if rows:
                yield METRICS.family(metric, rows)
        for metric, file in _OF_THE_HOST.items():
            host_rows = [
                ((size,), count)
                for name, size in sizes
                if (count := sysfs.number(f"{self._pools}/{name}/{file}")) is not None
            ]
            if host_rows:
                yield METRICS.family(metric, host_rows)

    def _directories(self) -> list[tuple[str, str | Path]]:
        """Return each node's number and directory of pools; without NUMA there is one node with the host's pools."""
        try:
            return [(str(n.number), f"{n.directory}/hugepages") for n in self._nodes.get()]
        except SourceAbsentError:
            return [("0", self._pools)]
        except CollectorError as error:
            guard.skip(error, *_BY_NODE)
            return []


ENTRY = Entry(
    optional=True,
    build=lambda host, _: HugePages(host),
    metrics=METRICS,
    about="huge pages by size and NUMA node",
)
