"""Number of hung tasks since boot, from <procfs>/sys/kernel/hung_task_detect_count (Linux 6.14 and later)."""

from collections.abc import Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint

METRICS = Table(
    Metric(
        "node_kernel_hung_tasks_total",
        "counter",
        "Total number of tasks that have been detected as hung since the system booted.",
        "<procfs>/sys/kernel/hung_task_detect_count",
    )
)


def parse(text: str) -> Iterator[Family]:
    """Read the source."""
    try:
        yield METRICS.single("node_kernel_hung_tasks_total", float(parse_uint(text.strip())))
    except ValueError as error:
        raise CollectorError(f"hung_task_detect_count: {error}") from error


class KernelHung:
    """The `kernel_hung` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "sys/kernel/hung_task_detect_count"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(
    build=lambda host, _: KernelHung(host),
    metrics=METRICS,
    about="tasks that the kernel reported as hung",
)
