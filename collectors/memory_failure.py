"""Pages taken offline after memory errors, by NUMA node and result, from <sysfs>/devices/system/node."""

from collections.abc import Iterator

from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, SourceAbsentError
from collectors.shared import sysfs
from collectors.shared.numanodes import numa_nodes

METRICS = Table(
    Metric(
        "node_memory_failure_pages_total",
        "counter",
        "Raw memory pages in which the kernel met an uncorrectable error, by the result of the recovery.",
        "<sysfs>/devices/system/node/node*/memory_failure/*",
        ("node", "result"),
        node_exporter=False,
    )
)
_SUM = "total"  # the sum of the other files, which would double sums over the node's series


class MemoryFailure:
    """The `memory_failure` collector."""

    def __init__(self, machine: Host) -> None:
        self._nodes = numa_nodes(machine.sysfs)

    def collect(self) -> Iterator[Family]:
        """Read the source. Kernels before 6.3 and those without CONFIG_MEMORY_FAILURE lack it."""
        rows = [
            ((str(node.number), result), count)
            for node in self._nodes.get()
            for result in sysfs.listing_optional(f"{node.directory}/memory_failure")
            if result != _SUM
            and (count := sysfs.number(f"{node.directory}/memory_failure/{result}")) is not None
        ]
        if not rows:
            raise SourceAbsentError(
                "no counts of memory failures (Linux 6.3, CONFIG_MEMORY_FAILURE)"
            )
        yield METRICS.family("node_memory_failure_pages_total", rows)


ENTRY = Entry(
    optional=True,
    build=lambda host, _: MemoryFailure(host),
    metrics=METRICS,
    about="pages lost to memory errors",
)
