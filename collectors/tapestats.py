"""I/O of SCSI tape drives, from <sysfs>/class/scsi_tape."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, MetricType
from collectors.shared import sysfs
from collectors.shared.formats.patterns import regexp
from plimsoll import re2
from plimsoll.flags import option

_STATS = "<sysfs>/class/scsi_tape/st*/stats"


def _row(file: str, name: str, about: str, kind: MetricType = "counter", unit: str = "") -> Metric:
    return Metric(f"node_tape_{name}", kind, about, f"{_STATS}/{file}", ("device",), unit)


_FILES = {
    "in_flight": _row(
        "in_flight", "io_now", "The number of I/Os currently outstanding to this device.", "gauge"
    ),
    "io_ns": _row(
        "io_ns",
        "io_time_seconds_total",
        "The amount of time spent waiting for all I/O to complete (including read and write). This includes tape movement commands such as seeking between file or set marks and implicit tape movement such as when rewind on close tape devices are used.",
        unit="seconds",
    ),
    "other_cnt": _row(
        "other_cnt",
        "io_others_total",
        "The number of I/Os issued to the tape drive other than read or write commands. The time taken to complete these commands uses the following calculation io_time_seconds_total-read_time_seconds_total-write_time_seconds_total",
    ),
    "read_byte_cnt": _row(
        "read_byte_cnt",
        "read_bytes_total",
        "The number of bytes read from the tape drive.",
        unit="bytes",
    ),
    "read_cnt": _row(
        "read_cnt",
        "reads_completed_total",
        "The number of read requests issued to the tape drive.",
    ),
    "read_ns": _row(
        "read_ns",
        "read_time_seconds_total",
        "The amount of time spent waiting for read requests to complete.",
        unit="seconds",
    ),
    "resid_cnt": _row(
        "resid_cnt",
        "residual_total",
        "The number of times during a read or write we found the residual amount to be non-zero. This should mean that a program is issuing a read larger thean the block size on tape. For write not all data made it to tape.",
    ),
    "write_byte_cnt": _row(
        "write_byte_cnt",
        "written_bytes_total",
        "The number of bytes written to the tape drive.",
        unit="bytes",
    ),
    "write_cnt": _row(
        "write_cnt",
        "writes_completed_total",
        "The number of write requests issued to the tape drive.",
    ),
    "write_ns": _row(
        "write_ns",
        "write_time_seconds_total",
        "The amount of time spent waiting for write requests to complete.",
        unit="seconds",
    ),
}
METRICS = Table(*_FILES.values())


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    tapestats_ignored_devices: str = option(
        "collector.tapestats.ignored-devices",
        "^$",
        "leave out devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )


_DRIVE = re.compile(r"st\d+", re.ASCII)  # the same drive is also listed as nst0, st0a, ...
_NANOSECONDS = 1e9


class Tapestats:
    """The `tapestats` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = machine.sysfs / "class/scsi_tape"
        self._ignored = re2.compiled(options.tapestats_ignored_devices)

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        devices = [
            name
            for name in sysfs.listing(self._directory)
            if _DRIVE.fullmatch(name) and self._ignored.search(name) is None
        ]
        for file, metric in _FILES.items():
            scale = _NANOSECONDS if file.endswith("_ns") else 1
            counts = (
                (device, sysfs.number(f"{self._directory}/{device}/stats/{file}"))
                for device in devices
            )
            yield METRICS.family(
                metric.name, (((name,), n / scale) for name, n in counts if n is not None)
            )


ENTRY = Entry(
    build=Tapestats,
    metrics=METRICS,
    about="I/O of tape drives",
    options=Options,
    source="<sysfs>/class/scsi_tape",
)
