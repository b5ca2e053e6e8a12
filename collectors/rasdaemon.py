"""Hardware errors that rasdaemon has recorded, from its SQLite database, counted by what they struck."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collectors import sqliteheader
from collectors.host import Host
from collectors.metric import Metric, Table
from collectors.rasrecords import Mark
from collectors.sample import Family
from collectors.sqliteheader import Header
from plimsoll.flags import option


def _row(what: str, text: str, table: str, *labels: str) -> Metric:
    source = f"<rootfs>/var/lib/rasdaemon/ras-mc_event.db: {table}"
    return Metric(f"rasdaemon_{what}_total", "counter", text, source, labels, node_exporter=False)


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
)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    # RUF009 does not know that a Path is immutable and that option() is dataclasses.field().
    rasdaemon_database: Path = option(
        "collector.rasdaemon.database",
        Path("/var/lib/rasdaemon/ras-mc_event.db"),
        "rasdaemon's database, below --path.rootfs",
        metavar="FILE",
        parse=Path,
    )


class Rasdaemon:
    """The `rasdaemon` collector.

    Its counts only grow: rows are counted once, and what a deleted or replaced database had counted stays.
    """

    def __init__(self, machine: Host, options: Options) -> None:
        self._path = machine.rootfs / str(options.rasdaemon_database).lstrip("/")
        self._counts: dict[str, Counter[tuple[str, ...]]] = {m.name: Counter() for m in METRICS}
        self._marks: dict[str, Mark] = {}
        self._header: Header | None = None

    def collect(self) -> Iterator[Family]:
        """Read what is new."""
        header = sqliteheader.read(self._path)
        if header is None or header != self._header:
            from collectors import (
                rasdatabase,
            )  # SQLite takes 2 MB, which nodes without rasdaemon do without

            with rasdatabase.opened(self._path) as database:
                database.count(self._marks, self._counts)
            self._header = header
        for name, counts in self._counts.items():
            if counts:
                yield METRICS.family(name, sorted(counts.items()))
