"""Reads, writes, discards and flushes per block device from <procfs>/diskstats, and facts from udev."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from collectors.diskstats import diskinfo
from collectors.diskstats.diskinfo import Disk
from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, MetricType
from collectors.shared.formats.numerals import parse_uint
from collectors.shared.formats.patterns import DeviceFilter, regexp
from plimsoll.flags import option

_SOURCE = "<procfs>/diskstats"
Column = tuple[Metric, float]
"""Metric of a column and the factor of its numbers."""


def _count(name: str, text: str, kind: MetricType = "counter") -> Column:
    return Metric(f"node_disk_{name}", kind, text, _SOURCE, ("device",)), 1


def _bytes(name: str, text: str) -> Column:
    """A column in sectors, which are 512 bytes on any device."""
    return Metric(f"node_disk_{name}", "counter", text, _SOURCE, ("device",), "bytes"), 512


def _seconds(name: str, text: str) -> Column:
    """A column in milliseconds."""
    return Metric(f"node_disk_{name}", "counter", text, _SOURCE, ("device",), "seconds"), 0.001


# In the order of the file. Discards exist since Linux 4.18, flushes since 5.5.
_COLUMNS = (
    _count("reads_completed_total", "The total number of reads completed successfully."),
    _count("reads_merged_total", "The total number of reads merged."),
    _bytes("read_bytes_total", "The total number of bytes read successfully."),
    _seconds("read_time_seconds_total", "The total number of seconds spent by all reads."),
    _count("writes_completed_total", "The total number of writes completed successfully."),
    _count("writes_merged_total", "The number of writes merged."),
    _bytes("written_bytes_total", "The total number of bytes written successfully."),
    _seconds(
        "write_time_seconds_total", "This is the total number of seconds spent by all writes."
    ),
    _count("io_now", "The number of I/Os currently in progress.", "gauge"),
    _seconds("io_time_seconds_total", "Total seconds spent doing I/Os."),
    _seconds("io_time_weighted_seconds_total", "The weighted # of seconds spent doing I/Os."),
    _count("discards_completed_total", "The total number of discards completed successfully."),
    _count("discards_merged_total", "The total number of discards merged."),
    _count("discarded_sectors_total", "The total number of sectors discarded successfully."),
    _seconds(
        "discard_time_seconds_total", "This is the total number of seconds spent by all discards."
    ),
    _count("flush_requests_total", "The total number of flush requests completed successfully"),
    _seconds(
        "flush_requests_time_seconds_total",
        "This is the total number of seconds spent by all flush requests.",
    ),
)
METRICS = Table(*(metric for metric, _ in _COLUMNS), *diskinfo.METRICS)

_ALWAYS = 11  # columns; partitions had fewer before Linux 2.6.25
_PARTITIONS = r"^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$"
# Times of udev's directory have ticks of up to 10 ms: a change right after another one may go unnoticed.
_SETTLED = 0.05
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    diskstats_exclude: str = option(
        "collector.diskstats.device-exclude",
        _PARTITIONS,
        "regular expression of the devices to leave out",
        metavar="REGEXP",
        parse=regexp,
    )
    diskstats_include: str = option(
        "collector.diskstats.device-include",
        "",
        "regular expression of the devices to export, instead of the default of device-exclude",
        metavar="REGEXP",
        parse=regexp,
    )

    def devices(self) -> DeviceFilter:
        """Return a predicate for ignored devices."""
        include, exclude = self.diskstats_include, self.diskstats_exclude
        return DeviceFilter(include, "" if include and exclude == _PARTITIONS else exclude)


class Line(NamedTuple):
    """A device's line."""

    device: str
    major: str
    minor: str
    numbers: list[int]


@guard.some
def parse(text: str, ignores: Callable[[str], bool]) -> Iterator[Line]:
    """Yield the lines of devices that are not ignored."""
    for line in filter(None, text.split("\n")):
        match line.split():
            case [major, minor, device, *columns]:
                if len(columns) >= _ALWAYS and not ignores(device):
                    try:
                        yield _line(device, [major, minor, *columns])
                    except CollectorError as error:
                        guard.skip(error)
            case _:
                guard.skip(f"diskstats: unexpected line {line[:80]!r}")


def _line(device: str, fields: list[str]) -> Line:
    try:
        major, minor, *numbers = (parse_uint(field) for field in fields)
    except ValueError as error:
        raise CollectorError(f"diskstats: {device[:40]}: {error}") from error
    return Line(device, str(major), str(minor), numbers)


def families(lines: Iterable[Line]) -> Iterator[Family]:
    """Return the columns that this kernel has."""
    devices = {line.device: line.numbers for line in lines}
    for column, (metric, factor) in enumerate(_COLUMNS):
        rows = [
            ((device,), numbers[column] * factor)
            for device, numbers in devices.items()
            if column < len(numbers)
        ]
        if rows:
            yield METRICS.family(metric.name, rows)


class DiskStats:
    """The `diskstats` collector."""

    def __init__(
        self, machine: host.Host, options: Options, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = machine.procfs / "diskstats"
        self._blocks = machine.sysfs / "block"
        self._udev = machine.udev
        self._ignores = lru_cache(maxsize=4096)(options.devices().ignores)
        self._clock = clock
        self._described: tuple[object, tuple[Family, ...]] = (None, ())

    def collect(self) -> Iterator[Family]:
        """Read the sources; facts about devices only after a device has changed."""
        lines = list(parse(host.read(self._path), self._ignores))
        yield from families(lines)
        yield from self._descriptions(lines)

    def _descriptions(self, lines: list[Line]) -> tuple[Family, ...]:
        changed = diskinfo.generation(self._udev)
        seen = changed, [line[:3] for line in lines]
        known, described = self._described
        if seen != known:
            described = tuple(diskinfo.families(map(self._disk, lines)))
            young = changed is not None and self._clock() - changed / _NANOSECONDS < _SETTLED
            self._described = (None if young else seen), described
        return described

    def _disk(self, line: Line) -> Disk:
        properties = diskinfo.properties_of(self._udev, line.major, line.minor)
        return Disk(line.device, line.major, line.minor, properties, self._is_rotational(line))

    def _is_rotational(self, line: Line) -> bool:
        """Return whether it rotates. Unknown, as for a partition, counts as not rotating, as in node_exporter."""
        # sysfs writes a slash in a device's name, as in `cciss/c0d0`, as an exclamation mark.
        path = self._blocks / line.device.replace("/", "!") / "queue/rotational"
        try:
            return (host.read_optional(path) or "").strip() == "1"
        except CollectorError:
            return False


ENTRY = Entry(
    build=DiskStats,
    metrics=METRICS,
    about="disk I/O, and the disks' properties from udev",
    options=Options,
)
