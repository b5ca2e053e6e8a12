"""Interrupts, context switches, forks, boot time, runnable and blocked processes, from <procfs>/stat."""

from collections.abc import Iterator
from dataclasses import dataclass

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint
from plimsoll.flags import option

_SOURCE = "<procfs>/stat"
METRICS = Table(
    Metric("node_intr_total", "counter", "Total number of interrupts serviced.", _SOURCE),
    Metric("node_context_switches_total", "counter", "Total number of context switches.", _SOURCE),
    Metric("node_forks_total", "counter", "Total number of forks.", _SOURCE),
    Metric(
        "node_boot_time_seconds", "gauge", "Node boot time, in unixtime.", _SOURCE, unit="seconds"
    ),
    Metric("node_procs_running", "gauge", "Number of processes in runnable state.", _SOURCE),
    Metric(
        "node_procs_blocked",
        "gauge",
        "Number of processes blocked waiting for I/O to complete.",
        _SOURCE,
    ),
    Metric("node_softirqs_total", "counter", "Number of softirq calls.", _SOURCE, ("vector",)),
)

# First word of a line to the metric of its first number.
_TOTALS = {
    "intr": "node_intr_total",
    "ctxt": "node_context_switches_total",
    "processes": "node_forks_total",
    "btime": "node_boot_time_seconds",
    "procs_running": "node_procs_running",
    "procs_blocked": "node_procs_blocked",
}
# Softirqs by number; their total precedes them in the line.
_VECTORS = (
    "hi", "timer", "net_tx", "net_rx", "block", "block_iopoll", "tasklet", "sched", "hrtimer", "rcu",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    stat_softirq: bool = option(
        "collector.stat.softirq", False, "export node_softirqs_total, softirq calls per vector"
    )


@guard.some
def parse(text: str, *, softirqs: bool) -> Iterator[Family]:
    """Yield the families of existing lines; softirqs only on request. Raises CollectorError if it is another file."""
    by_key = dict(_lines(text))
    if by_key.keys().isdisjoint(_TOTALS):
        raise CollectorError("stat: none of the expected lines in it")
    for key, name in _TOTALS.items():
        if key in by_key:
            try:
                # A large machine's interrupts take kilobytes; only their sum is needed.
                yield METRICS.single(name, parse_uint(by_key[key].partition(" ")[0]))
            except ValueError as error:
                guard.skip(f"stat {key}: {error}", name)
    if softirqs and "softirq" in by_key:
        yield METRICS.family("node_softirqs_total", _vectors(by_key["softirq"]))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, _, rest = line.partition(" ")
        yield key, rest


def _vectors(line: str) -> Iterator[tuple[tuple[str], int]]:
    _, *counts = line.split() or [""]
    if len(counts) < len(_VECTORS):
        guard.skip(f"stat softirq: has only {len(counts)} vectors", "node_softirqs_total")
        return
    for vector, count in zip(_VECTORS, counts, strict=False):
        try:
            yield (vector,), parse_uint(count)
        except ValueError as error:
            guard.skip(f"stat softirq: {vector}: {error}", "node_softirqs_total")


class Stat:
    """The `stat` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._path = machine.procfs / "stat"
        self._softirqs = options.stat_softirq

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path), softirqs=self._softirqs)


ENTRY = Entry(
    build=Stat,
    metrics=METRICS,
    about="interrupts, context switches, forks, boot time",
    options=Options,
)
