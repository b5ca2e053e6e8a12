"""Counts of kernel failures since boot: oopses, warnings, lockups, RCU stalls, from <sysfs>/kernel."""

from collections.abc import Iterator

from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, SourceAbsentError
from collectors.shared import sysfs


def _row(event: str, what: str) -> Metric:
    return Metric(
        f"node_kernel_{event}_total",
        "counter",
        what,
        f"<sysfs>/kernel/{event}_count",
        node_exporter=False,
    )


METRICS = Table(
    _row("oops", "Number of times the kernel has oopsed since boot."),
    _row("warn", "Number of warnings (WARN) the kernel has issued since boot."),
    _row("softlockup", "Number of soft lockups the kernel has detected since boot."),
    _row("hardlockup", "Number of hard lockups the kernel has detected since boot."),
    _row("rcu_stall", "Number of RCU stalls the kernel has detected since boot."),
)
_EVENTS = ("oops", "warn", "softlockup", "hardlockup", "rcu_stall")


class KernelEvents:
    """The `kernel_events` collector."""

    def __init__(self, machine: Host) -> None:
        self._directory = machine.sysfs / "kernel"
        self._files = [
            (f"node_kernel_{event}_total", str(self._directory / f"{event}_count"))
            for event in _EVENTS
        ]

    def collect(self) -> Iterator[Family]:
        """Read the source. Kernels before 6.2 lack all counters, before 6.16 lockups and stalls."""
        counts = [(name, sysfs.number(path)) for name, path in self._files]
        if all(count is None for _, count in counts):
            raise SourceAbsentError(f"{self._directory}: no counts of kernel failures (Linux 6.2)")
        for name, count in counts:
            if count is not None:
                yield METRICS.single(name, count)


ENTRY = Entry(
    optional=True,
    build=lambda host, _: KernelEvents(host),
    metrics=METRICS,
    about="oopses, warnings, lockups and stalls of the kernel",
)
