"""Size and event counters of the connection tracking table (nf_conntrack), summed over all CPUs."""

from collections.abc import Iterator, Mapping
from functools import partial

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared import netroot
from collectors.shared.formats.numerals import parse_hex, parse_uint

_STAT = "<procfs>/1/net/stat/nf_conntrack"
# Column of the file to the end of the metric's name. Columns differ between kernels.
_EVENTS = {
    "found": "Number of searched entries which were successful.",
    "invalid": "Number of packets seen which can not be tracked.",
    "ignore": "Number of packets seen which are already connected to a conntrack entry.",
    "insert": "Number of entries inserted into the list.",
    "insert_failed": "Number of entries for which list insertion was attempted but failed.",
    "drop": "Number of packets dropped due to conntrack failure.",
    "early_drop": "Number of dropped conntrack entries to make room for new ones, if maximum table size was reached.",
    "search_restart": "Number of conntrack table lookups which had to be restarted due to hashtable resizes.",
}
METRICS = Table(
    Metric(
        "node_nf_conntrack_entries",
        "gauge",
        "Number of currently allocated flow entries for connection tracking.",
        "<procfs>/sys/net/netfilter/nf_conntrack_count",
    ),
    Metric(
        "node_nf_conntrack_entries_limit",
        "gauge",
        "Maximum size of connection tracking table.",
        "<procfs>/sys/net/netfilter/nf_conntrack_max",
    ),
    *(
        Metric(f"node_nf_conntrack_stat_{column}", "gauge", about, _STAT)
        for column, about in _EVENTS.items()
    ),
)


def parse(text: str) -> dict[str, int]:
    """Return the sum over all CPUs by column; `entries`, which every line repeats, is not summed."""
    header, *lines = text.splitlines() or [""]
    names = header.split()
    if "entries" not in names or not lines:
        raise CollectorError("nf_conntrack: no table")
    rows = [line.split() for line in lines]
    found: dict[str, int] = {}
    for index, name in enumerate(names):
        if name == "entries" or name in _EVENTS:
            try:
                cells = [_cell(row, index, len(names)) for row in rows]
            except ValueError as error:
                # The sum without one CPU would look like a reset.
                guard.skip(f"nf_conntrack: {name}: {error}", f"node_nf_conntrack_stat_{name}")
                continue
            found[name] = cells[0] if name == "entries" else sum(cells)
    if not found:
        raise CollectorError("nf_conntrack: no column that can be read")
    return found


def _cell(row: list[str], index: int, width: int) -> int:
    """Return a number. Raises ValueError."""
    if len(row) != width:
        raise ValueError(f"{len(row)} numbers for {width} columns")
    return parse_hex(row[index])


class Conntrack:
    """The `conntrack` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._stat = netroot.directory(machine) / "stat/nf_conntrack"
        self._sysctl = machine.procfs / "sys/net/netfilter"
        # Network sysctls are those of the reader's namespace, in any procfs; the table is not.
        self._counts_here = netroot.is_own(machine)

    def collect(self) -> Iterator[Family]:
        """Read the sources, which exist only once the kernel module is loaded."""
        table: Mapping[str, int] = {}
        try:
            text = host.read_optional(self._stat)
            table = {} if text is None else parse(text)
        except CollectorError as error:
            guard.skip(error)
        limit = partial(self._number, "nf_conntrack_max")
        for name, read in (("entries", partial(self._entries, table)), ("entries_limit", limit)):
            try:
                yield METRICS.single(f"node_nf_conntrack_{name}", float(read()))
            except SourceAbsentError:
                raise
            except CollectorError as error:
                guard.skip(error, f"node_nf_conntrack_{name}")
        for column in _EVENTS:
            if column in table:
                yield METRICS.single(f"node_nf_conntrack_stat_{column}", float(table[column]))

    def _entries(self, table: Mapping[str, int]) -> int:
        if self._counts_here:
            return self._number("nf_conntrack_count")
        if "entries" not in table:
            raise SourceAbsentError(f"{self._stat}: not there")
        return table["entries"]

    def _number(self, name: str) -> int:
        try:
            return parse_uint(host.read(self._sysctl / name).strip())
        except ValueError as error:
            raise CollectorError(f"{name}: {error}") from error


ENTRY = Entry(
    build=lambda host, _: Conntrack(host), metrics=METRICS, about="the connection tracking table"
)
