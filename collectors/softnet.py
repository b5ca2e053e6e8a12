"""Packet processing per CPU (softnet), from <procfs>/net/softnet_stat."""

from collections.abc import Iterator, Mapping
from functools import partial

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, MetricType
from collectors.shared import netroot
from collectors.shared.formats.numerals import parse_hex


def _row(name: str, about: str, kind: MetricType = "counter") -> Metric:
    return Metric(f"node_softnet_{name}", kind, about, "<procfs>/1/net/softnet_stat", ("cpu",))


METRICS = Table(
    _row("processed_total", "Number of processed packets"),
    _row("dropped_total", "Number of dropped packets"),
    _row("times_squeezed_total", "Number of times processing packets ran out of quota"),
    _row(
        "cpu_collision_total",
        "Number of collision occur while obtaining device lock while transmitting",
    ),
    _row("received_rps_total", "Number of times cpu woken up received_rps"),
    _row("flow_limit_count_total", "Number of times flow limit has been reached"),
    _row("backlog_len", "Softnet backlog status", "gauge"),
)

# Positions of the columns. Kernels print 9, a tenth since 2.6.36, an eleventh since 3.11, a twelfth and the CPU since
# 5.14, and two parts of the twelfth since 6.10.
_COLUMNS = {
    0: "node_softnet_processed_total",
    1: "node_softnet_dropped_total",
    2: "node_softnet_times_squeezed_total",
    8: "node_softnet_cpu_collision_total",
    9: "node_softnet_received_rps_total",
    10: "node_softnet_flow_limit_count_total",
    11: "node_softnet_backlog_len",
}
_LEAST = 9
_CPU = 12
_READ = (*_COLUMNS, _CPU)


def parse(text: str) -> Iterator[Family]:
    """Yield the families. A column that this kernel lacks has none."""
    lines = [line.split() for line in text.splitlines()]
    # All lines of a kernel have as many columns; of two lines, the longer one is whole.
    widths = [*map(len, lines)]
    width = max(set(widths), key=lambda width: (widths.count(width), width), default=0)
    if width < _LEAST:
        raise CollectorError("softnet_stat: fewer columns than any kernel prints")
    rows = guard.readable(enumerate(lines), partial(_cpu, width))
    by_cpu: dict[str, Mapping[int, int]] = {}
    for cpu, numbers in rows:
        if by_cpu.setdefault(cpu, numbers) is not numbers:
            guard.skip(f"softnet_stat: CPU {cpu} has two lines")
    for column, name in _COLUMNS.items():
        if column < width:
            yield METRICS.family(
                name, (((cpu,), float(numbers[column])) for cpu, numbers in by_cpu.items())
            )


def _cpu(width: int, line: tuple[int, list[str]]) -> tuple[str, Mapping[int, int]]:
    """Return the CPU of a line and the numbers by column: before the CPU had a column, offline CPUs were omitted without a trace."""
    place, columns = line
    if len(columns) != width:
        raise CollectorError(f"softnet_stat: {len(columns)} columns, not {width}")
    try:
        numbers = {n: parse_hex(columns[n]) for n in _READ if n < width}
    except ValueError as error:
        raise CollectorError(f"softnet_stat: {error}") from error
    return str(numbers[_CPU] if width > _CPU else place), numbers


class Softnet:
    """The `softnet` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = netroot.directory(machine) / "softnet_stat"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(
    build=lambda host, _: Softnet(host),
    metrics=METRICS,
    about="packets processed and dropped by each CPU",
)
