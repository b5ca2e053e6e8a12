"""Hardware errors recorded in rasdaemon's SQLite database, by affected component."""

import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.rasdaemon.formats.rasrecent import RecentErrors
from collectors.rasdaemon.formats.rasrecords import RecordMark
from collectors.shared import steadyfile
from collectors.shared.steadyfile import FileStamp
from plimsoll.flags import option


def _row(what: str, text: str, table: str, *labels: str) -> Metric:
    source = f"<rootfs>/var/lib/rasdaemon/ras-mc_event.db: {table}"
    return Metric(f"rasdaemon_{what}_total", "counter", text, source, labels, node_exporter=False)


_UNCORRECTED = "rasdaemon_memory_uncorrected_errors_24h"
_OF_A_PAGE = "rasdaemon_memory_page_corrected_errors_24h"


def _recent(name: str, text: str) -> Metric:
    source = "<rootfs>/var/lib/rasdaemon/ras-mc_event.db: mc_event"
    return Metric(name, "gauge", text, source, node_exporter=False)


METRICS = Table(
    _row(
        "mc_events",
        "Memory errors that rasdaemon recorded, by memory controller, DIMM label and error type.",
        "mc_event",
        "mc",
        "label",
        "type",
    ),
    _row(
        "aer_events",
        "PCI Express errors that rasdaemon recorded, by device and error type.",
        "aer_event",
        "device",
        "type",
    ),
    _row(
        "mce_records",
        "Machine checks that rasdaemon recorded, by CPU socket, bank and error type.",
        "mce_record",
        "socket",
        "bank",
        "type",
    ),
    _row(
        "extlog_events",
        "Memory errors that firmware logged and rasdaemon recorded, by error type and severity.",
        "extlog_event",
        "type",
        "severity",
    ),
    _row(
        "memory_failure_events",
        "Memory pages with uncorrected errors that rasdaemon recorded, by the result of the recovery.",
        "memory_failure_event",
        "result",
    ),
    _row(
        "disk_errors",
        "Block device errors that rasdaemon recorded, by device (major:minor).",
        "disk_errors",
        "device",
    ),
    _row(
        "cxl_events",
        "CXL events that rasdaemon recorded, by the table of its database.",
        "cxl_*",
        "table",
    ),
    _recent(
        _UNCORRECTED,
        "Memory errors of the last 24 hours that were not corrected, by the time that rasdaemon recorded with them.",
    ),
    _recent(
        _OF_A_PAGE,
        "Corrected memory errors of the last 24 hours in the page that has the most, by rasdaemon's records.",
    ),
)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    rasdaemon_database: str = option(
        "collector.rasdaemon.database",
        "/var/lib/rasdaemon/ras-mc_event.db",
        "rasdaemon's database, below --path.rootfs",
        metavar="FILE",
    )


_SIZE = 100
_MAGIC = b"SQLite format 3\0"
_WRITE_VERSION, _WAL = 18, 2


class Header(NamedTuple):
    """A value that every commit changes."""

    mark: FileStamp
    content: bytes
    """Includes the commit counter, for commits within one tick of the file's time."""


def read_header(path: Path) -> Header | None:
    """Return the current header, without SQLite and without a lock that could block a writer; None if commits go to another file first (WAL).

    Raises SourceAbsentError if there is no database, or it is empty.
    """
    mark, content = _head(path)
    if not content:
        raise SourceAbsentError(f"{path}: empty, nothing has been recorded yet")
    if len(content) < _SIZE or not content.startswith(_MAGIC):
        raise CollectorError(f"{path}: not an SQLite database, or cut short")
    return None if content[_WRITE_VERSION] == _WAL else Header(mark, content)


def _head(path: Path) -> tuple[FileStamp, bytes]:
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceAbsentError(f"{path}: no such database") from error
    except OSError as error:
        raise CollectorError(f"{path}: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CollectorError(f"{path}: not a regular file")
        return steadyfile.stamp(status), os.pread(descriptor, _SIZE, 0)
    except OSError as error:
        raise CollectorError(f"{path}: {error.strerror}") from error
    finally:
        os.close(descriptor)


class Rasdaemon:
    """The `rasdaemon` collector.

    Its counts only grow: rows are counted once, and what a deleted or replaced database had counted stays. What is of the
    last 24 hours goes by the time in the rows.
    """

    def __init__(
        self, machine: Host, options: Options, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._path = machine.rootfs / options.rasdaemon_database.lstrip("/")
        self._counts: dict[str, Counter[tuple[str, ...]]] = {
            m.name: Counter() for m in METRICS if m.type == "counter"
        }
        self._marks: dict[str, RecordMark] = {}
        self._header: Header | None = None
        self._recent = RecentErrors()

    def collect(self) -> Iterator[Family]:
        """Read new rows."""
        header = read_header(self._path)
        if header is None or header != self._header:
            from collectors.rasdaemon import rasdatabase

            with rasdatabase.opened(self._path) as database:
                database.count(self._marks, self._counts, self._recent, self._clock())
            self._header = header
        for name, counts in self._counts.items():
            if counts:
                yield METRICS.family(name, sorted(counts.items()))
        if self._recent.known:
            now = self._clock()
            yield METRICS.single(_UNCORRECTED, self._recent.uncorrected(now))
            yield METRICS.single(_OF_A_PAGE, self._recent.worst_page(now))


ENTRY = Entry(
    optional=True,
    build=Rasdaemon,
    metrics=METRICS,
    about="hardware errors that rasdaemon recorded",
    options=Options,
)
