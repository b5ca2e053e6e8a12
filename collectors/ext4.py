"""Errors that ext4 file systems recorded, from <sysfs>/fs/ext4/<device>.

The count of errors and their times are in the superblock: they survive reboots, and e2fsck resets them when it has repaired the
file system. Warnings are counted since the mount (fs/ext4/sysfs.c).
"""

from collections.abc import Iterator

from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, MetricType, SourceAbsentError
from collectors.shared import sysfs


def _row(name: str, kind: MetricType, about: str, file: str, unit: str = "") -> Metric:
    source = f"<sysfs>/fs/ext4/<device>/{file}"
    return Metric(f"node_ext4_{name}", kind, about, source, ("device",), unit, node_exporter=False)


METRICS = Table(
    _row("errors", "gauge", "Errors recorded in the file system since its last e2fsck.", "errors_count"),
    _row("warnings_total", "counter", "Warnings of the file system since it was mounted.", "warning_count"),
    _row("first_error_time_seconds", "gauge", "Unix time of the first error since the last e2fsck; absent without errors.", "first_error_time", "seconds"),
    _row("last_error_time_seconds", "gauge", "Unix time of the last error since the last e2fsck; absent without errors.", "last_error_time", "seconds"),
)  # fmt: skip
_COUNTS = {"errors_count": "node_ext4_errors", "warning_count": "node_ext4_warnings_total"}
_TIMES = {
    "first_error_time": "node_ext4_first_error_time_seconds",
    "last_error_time": "node_ext4_last_error_time_seconds",
}


class Ext4:
    """The `ext4` collector."""

    def __init__(self, machine: Host) -> None:
        self._directory = machine.sysfs / "fs/ext4"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        rows: dict[str, list[tuple[tuple[str], float]]] = {}
        for device in sysfs.listing(self._directory):
            # `features` lists what the kernel supports, and has none of these files
            for file, name in (_COUNTS | _TIMES).items():
                number = sysfs.number(f"{self._directory}/{device}/{file}")
                if number is not None and (number or name not in _TIMES.values()):
                    rows.setdefault(name, []).append(((device,), float(number)))
        if not rows:
            raise SourceAbsentError(f"{self._directory}: no ext4 file system with error counts")
        for name, samples in rows.items():
            yield METRICS.family(name, samples)


ENTRY = Entry(
    build=lambda host, _: Ext4(host),
    metrics=METRICS,
    optional=True,
    about="errors that ext4 file systems recorded",
    source="<sysfs>/fs/ext4",
)
