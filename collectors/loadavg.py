"""Load averages from <procfs>/loadavg."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_float

_SOURCE = "<procfs>/loadavg"
METRICS = Table(
    Metric("node_load1", "gauge", "1m load average.", _SOURCE),
    Metric("node_load5", "gauge", "5m load average.", _SOURCE),
    Metric("node_load15", "gauge", "15m load average.", _SOURCE),
)
_MOST = 5  # fields
_NAMES = tuple(metric.name for metric in METRICS)


@guard.some
def parse(text: str) -> Iterator[Family]:
    """Return the three averages; what follows them (`2/713 4242`) describes processes."""
    fields = text.partition("\n")[0].split()
    if len(fields) < len(_NAMES) or "/" in "".join(fields[: len(_NAMES)]) or len(fields) > _MOST:
        raise CollectorError(f"loadavg: three numbers expected, got {text[:80]!r}")
    for name, field in zip(_NAMES, fields, strict=False):
        try:
            yield METRICS.single(name, parse_float(field))
        except ValueError as error:
            guard.skip(f"loadavg: {error}", name)


class LoadAvg:
    """The `loadavg` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "loadavg"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(build=lambda host, _: LoadAvg(host), metrics=METRICS, about="load averages")
