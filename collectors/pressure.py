"""Pressure stall information (PSI) from <procfs>/pressure: time that processes waited for CPU, memory, IO and interrupts."""

import re
from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family

_LINE = re.compile(
    r"(some|full) avg10=[0-9.]+ avg60=[0-9.]+ avg300=[0-9.]+ total=([0-9]{1,19})", re.ASCII
)
_MICROSECONDS = 1_000_000


def _row(name: str, resource: str, what: str) -> Metric:
    return Metric(
        f"node_pressure_{name}_seconds_total",
        "counter",
        f"Total time in seconds {what}",
        f"<procfs>/pressure/{resource}",
        unit="seconds",
    )


METRICS = Table(
    _row("cpu_waiting", "cpu", "that processes have waited for CPU time"),
    _row("io_waiting", "io", "that processes have waited due to IO congestion"),
    _row("io_stalled", "io", "no process could make progress due to IO congestion"),
    _row("memory_waiting", "memory", "that processes have waited for memory"),
    _row("memory_stalled", "memory", "no process could make progress due to memory congestion"),
    _row("irq_stalled", "irq", "no process could make progress due to IRQ congestion"),
)

# Metrics of each resource's lines. System-wide "full" of cpu is undefined, and "some" of irq does not exist.
_LINES = {
    "cpu": {"some": "node_pressure_cpu_waiting_seconds_total"},
    "io": {
        "some": "node_pressure_io_waiting_seconds_total",
        "full": "node_pressure_io_stalled_seconds_total",
    },
    "memory": {
        "some": "node_pressure_memory_waiting_seconds_total",
        "full": "node_pressure_memory_stalled_seconds_total",
    },
    "irq": {"full": "node_pressure_irq_stalled_seconds_total"},
}


@guard.some
def parse(resource: str, text: str) -> Iterator[Family]:
    """Yield the families of a resource."""
    totals = dict(_totals(resource, text))
    for line, name in _LINES[resource].items():
        if line in totals:
            yield METRICS.single(name, totals[line] / _MICROSECONDS)
        else:
            guard.skip(f"pressure/{resource}: no {line!r} line that can be read", name)


def _totals(resource: str, text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        if not line.startswith(("some", "full")):
            continue  # a kind that later kernels may add
        if (match := _LINE.fullmatch(line)) is not None:
            yield match.group(1), int(match.group(2))


class Pressure:
    """The `pressure` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = machine.procfs / "pressure"

    def collect(self) -> Iterator[Family]:
        """Read the source. Kernels before 4.20 lack it, as do those with psi=0; before 6.1 its irq."""
        for resource, text in host.read_each(self._directory, tuple(_LINES)).items():
            yield from guard.attempt(parse(resource, text))


ENTRY = Entry(
    build=lambda host, _: Pressure(host), metrics=METRICS, about="pressure stall information"
)
