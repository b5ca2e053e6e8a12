"""Pages of each memory zone: free, watermarks, and usage, from <procfs>/zoneinfo."""

import re
from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint

_SOURCE = "<procfs>/zoneinfo"
_LABELS = ("node", "zone")

# The kernel's name of a line, node_exporter's name and its HELP.
_GAUGES = {
    "nr_free_pages": ("nr_free_pages", "Total number of free pages in the zone"),
    "min": ("min_pages", "Zone watermark pages_min"),
    "low": ("low_pages", "Zone watermark pages_low"),
    "high": ("high_pages", "Zone watermark pages_high"),
    "scanned": ("scanned_pages", "Pages scanned since last reclaim"),
    "spanned": ("spanned_pages", "Total pages spanned by the zone, including holes"),
    "present": ("present_pages", "Physical pages existing within the zone"),
    "managed": ("managed_pages", "Present pages managed by the buddy system"),
    "nr_active_anon": ("nr_active_anon_pages", "Number of anonymous pages recently more used"),
    "nr_inactive_anon": (
        "nr_inactive_anon_pages",
        "Number of anonymous pages recently less used",
    ),
    "nr_isolated_anon": ("nr_isolated_anon_pages", "Temporary isolated pages from anon lru"),
    "nr_anon_pages": (
        "nr_anon_pages",
        "Number of anonymous pages currently used by the system",
    ),
    "nr_anon_transparent_hugepages": (
        "nr_anon_transparent_hugepages",
        "Number of anonymous transparent huge pages currently used by the system",
    ),
    "nr_active_file": ("nr_active_file_pages", "Number of active pages with file-backing"),
    "nr_inactive_file": ("nr_inactive_file_pages", "Number of inactive pages with file-backing"),
    "nr_isolated_file": ("nr_isolated_file_pages", "Temporary isolated pages from file lru"),
    "nr_file_pages": ("nr_file_pages", "Number of file pages"),
    "nr_slab_reclaimable": ("nr_slab_reclaimable_pages", "Number of reclaimable slab pages"),
    "nr_slab_unreclaimable": (
        "nr_slab_unreclaimable_pages",
        "Number of unreclaimable slab pages",
    ),
    "nr_mlock_stack": ("nr_mlock_stack_pages", "mlock()ed pages found and moved off LRU"),
    "nr_kernel_stack": ("nr_kernel_stacks", "Number of kernel stacks"),
    "nr_mapped": ("nr_mapped_pages", "Number of mapped pages"),
    "nr_dirty": ("nr_dirty_pages", "Number of dirty pages"),
    "nr_writeback": ("nr_writeback_pages", "Number of writeback pages"),
    "nr_unevictable": ("nr_unevictable_pages", "Number of unevictable pages"),
    "nr_shmem": ("nr_shmem_pages", "Number of shmem pages (included tmpfs/GEM pages)"),
}
_COUNTERS = {
    "nr_dirtied": ("nr_dirtied_total", "Page dirtyings since bootup"),
    "nr_written": ("nr_written_total", "Page writings since bootup"),
    "numa_hit": ("numa_hit_total", "Allocated in intended node"),
    "numa_miss": ("numa_miss_total", "Allocated in non intended node"),
    "numa_foreign": ("numa_foreign_total", "Was intended here, hit elsewhere"),
    "numa_interleave": ("numa_interleave_total", "Interleaver preferred this zone"),
    "numa_local": ("numa_local_total", "Allocation from local node"),
    "numa_other": ("numa_other_total", "Allocation from other node"),
}
METRICS = Table(
    *(
        Metric(f"node_zoneinfo_{name}", "gauge", text, _SOURCE, _LABELS)
        for name, text in _GAUGES.values()
    ),
    *(
        Metric(f"node_zoneinfo_{name}", "counter", text, _SOURCE, _LABELS)
        for name, text in _COUNTERS.values()
    ),
    Metric(
        "node_zoneinfo_protection_<index>",
        "gauge",
        "Protection array <index>. field",
        _SOURCE,
        _LABELS,
    ),
)

_NAMES = {key: f"node_zoneinfo_{name}" for key, (name, _) in (_GAUGES | _COUNTERS).items()}
_ZONE = re.compile(r"Node (\d+), zone +(\w+)", re.ASCII)

Zone = tuple[str, str]
"""Node and zone."""


def parse(text: str) -> Iterator[Family]:
    """Return the known lines. Values of a whole node are in its first zone, and labeled so."""
    zone: Zone | None = None
    by_name: dict[str, dict[Zone, float]] = {}
    for line in text.splitlines():
        if line.startswith("Node"):
            try:
                zone = _zone(line)
            except CollectorError as error:
                zone = None
                guard.skip(error)
            continue
        key, _, rest = line.strip().partition(" ")
        if zone is None or not (key in _NAMES or key == "protection:"):
            continue
        try:
            readings = list(_readings(key, rest))
        except CollectorError as error:
            guard.skip(error)
            continue
        for name, value in readings:
            by_name.setdefault(name, {})[zone] = value
    if not by_name:
        raise CollectorError("zoneinfo: no zone in it")
    for name, samples in by_name.items():
        yield METRICS.family(name, samples.items())


def _zone(line: str) -> Zone:
    if (match := _ZONE.fullmatch(line.rstrip())) is None:
        raise CollectorError(f"zoneinfo: unexpected line {line[:80]!r}")
    return match.group(1), match.group(2)


def _readings(key: str, rest: str) -> Iterator[tuple[str, float]]:
    """Yield metric and value of a line; one per number of `(0, 2991, 7913)`, which protect lower zones."""
    try:
        if name := _NAMES.get(key):
            yield name, parse_uint(rest.strip())
        else:
            for index, pages in enumerate(rest.strip(" ()").split(",")):
                yield f"node_zoneinfo_protection_{index}", parse_uint(pages.strip())
    except ValueError as error:
        raise CollectorError(f"zoneinfo: {key}: {error}") from error


class ZoneInfo:
    """The `zoneinfo` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "zoneinfo"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(
    build=lambda host, _: ZoneInfo(host),
    metrics=METRICS,
    about="pages of each memory zone",
    on=False,
)
