"""Swap devices and files: size, use and priority, from <procfs>/swaps."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import mounts
from collectors.shared.formats.numerals import parse_int

_LABELS = ("device", "swap_type")
METRICS = Table(
    Metric(
        "node_swap_size_bytes",
        "gauge",
        "Swap device size in bytes.",
        "<procfs>/swaps",
        _LABELS,
        "bytes",
    ),
    Metric(
        "node_swap_used_bytes",
        "gauge",
        "Swap device used in bytes.",
        "<procfs>/swaps",
        _LABELS,
        "bytes",
    ),
    Metric("node_swap_priority", "gauge", "Swap device priority.", "<procfs>/swaps", _LABELS),
)
_KIBIBYTE = 1024


def parse(text: str) -> Iterator[Family]:
    """Yield the families, without samples if nothing is used for swapping."""
    rows = dict(guard.readable(text.splitlines()[1:], _device))
    for index, metric in enumerate(METRICS):
        yield METRICS.family(metric.name, ((key, float(n[index])) for key, n in rows.items()))


def _device(line: str) -> tuple[tuple[str, str], tuple[int, int, int]]:
    """Return device and type, and size, used bytes and priority."""
    try:
        device, kind, *numbers = line.split()
        size, used, priority = (parse_int(number) for number in numbers)
    except ValueError as error:
        raise CollectorError(f"swaps: unexpected line {line[:80]!r}") from error
    return (mounts.unescaped(device), kind), (size * _KIBIBYTE, used * _KIBIBYTE, priority)


class Swap:
    """The `swap` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "swaps"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(build=lambda host, _: Swap(host), metrics=METRICS, about="swap devices", on=False)
