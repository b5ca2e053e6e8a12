"""Softirqs by kind and CPU, from <procfs>/softirqs."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats import percpu

METRICS = Table(
    Metric(
        "node_softirqs_functions_total",
        "counter",
        "Softirq counts per CPU.",
        "<procfs>/softirqs",
        ("cpu", "type"),
    )
)


def parse(text: str) -> Iterator[Family]:
    """Yield a sample per CPU and kind, of all kinds in this kernel."""
    cpus, rows = percpu.split("softirqs", text)
    samples: dict[tuple[str, str], float] = {}
    for kind, cells in rows:
        if len(cells) != len(cpus):
            guard.skip(f"softirqs: {len(cells)} counts of {kind[:40]!r} for {len(cpus)} CPUs")
            continue
        for cpu, count in zip(cpus, percpu.counts("softirqs", kind, cells), strict=True):
            if count is not None:
                samples[cpu, kind] = count
    if not samples:
        raise CollectorError("softirqs: no counts in it")
    yield METRICS.family("node_softirqs_functions_total", samples.items())


class SoftIrqs:
    """The `softirqs` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "softirqs"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(
    build=lambda host, _: SoftIrqs(host),
    metrics=METRICS,
    about="softirqs by kind and CPU",
    on=False,
)
