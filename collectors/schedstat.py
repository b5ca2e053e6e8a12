"""Time that each CPU ran processes and processes waited for it, from <procfs>/schedstat."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint

_SOURCE = "<procfs>/schedstat"
METRICS = Table(
    Metric(
        "node_schedstat_running_seconds_total",
        "counter",
        "Number of seconds CPU spent running a process.",
        _SOURCE,
        ("cpu",),
        "seconds",
    ),
    Metric(
        "node_schedstat_waiting_seconds_total",
        "counter",
        "Number of seconds spent by processing waiting for this CPU.",
        _SOURCE,
        ("cpu",),
        "seconds",
    ),
    Metric(
        "node_schedstat_timeslices_total",
        "counter",
        "Number of timeslices executed by CPU.",
        _SOURCE,
        ("cpu",),
    ),
)

_NANOSECONDS = 1_000_000_000
# Positions in a CPU's line, unchanged since version 15 of the file (Linux 2.6.30).
_RUNNING, _WAITING, _TIMESLICES = 7, 8, 9


def parse(text: str) -> Iterator[Family]:
    """Yield the families of lines that begin with `cpu`; those between describe scheduling domains."""
    lines = [line for line in text.splitlines() if line.startswith("cpu")]
    cpus = dict(guard.readable(lines, _cpu))
    if not cpus:
        raise CollectorError("schedstat: no CPU in it")
    yield METRICS.family(
        "node_schedstat_running_seconds_total",
        (((cpu,), running / _NANOSECONDS) for cpu, (running, _, _) in cpus.items()),
    )
    yield METRICS.family(
        "node_schedstat_waiting_seconds_total",
        (((cpu,), waiting / _NANOSECONDS) for cpu, (_, waiting, _) in cpus.items()),
    )
    yield METRICS.family(
        "node_schedstat_timeslices_total",
        (((cpu,), slices) for cpu, (_, _, slices) in cpus.items()),
    )


def _cpu(line: str) -> tuple[str, list[int]]:
    """Return a CPU's number, and its running time, waiting time and timeslices."""
    name, *fields = line.split()
    if len(fields) < _TIMESLICES:
        raise CollectorError(f"schedstat: {name[:40]} has only {len(fields)} fields")
    try:
        number = parse_uint(name.removeprefix("cpu"))
        return str(number), [parse_uint(field) for field in fields[_RUNNING - 1 : _TIMESLICES]]
    except ValueError as error:
        raise CollectorError(f"schedstat: {name[:40]}: {error}") from error


class SchedStat:
    """The `schedstat` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "schedstat"

    def collect(self) -> Iterator[Family]:
        """Read the source. Kernels without CONFIG_SCHEDSTATS lack it."""
        return parse(host.read(self._path))


ENTRY = Entry(
    build=lambda host, _: SchedStat(host),
    metrics=METRICS,
    about="time that CPUs ran and processes waited",
)
