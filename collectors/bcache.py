"""Block caches (bcache): cache sets, their backing and cache devices, from <sysfs>/fs/bcache."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_uint
from plimsoll.flags import option

_SET = "<sysfs>/fs/bcache/<uuid>"
# File below the set's or the device's directory, the metric's name after node_bcache_, its HELP.
# fmt: off
_OF_SET = (
    ("average_key_size", "average_key_size_sectors", "Average data per key in the btree (sectors)."),
    ("btree_cache_size", "btree_cache_size_bytes", "Amount of memory currently used by the btree cache."),
    ("cache_available_percent", "cache_available_percent", "Percentage of cache device without dirty data, usable for writeback (may contain clean cached data)."),
    ("congested", "congested", "Congestion."),
    ("root_usage_percent", "root_usage_percent", "Percentage of the root btree node in use (tree depth increases if too high)."),
    ("tree_depth", "tree_depth", "Depth of the btree."),
    ("internal/active_journal_entries", "active_journal_entries", "Number of journal entries that are newer than the index."),
    ("internal/btree_nodes", "btree_nodes", "Total nodes in the btree."),
    ("internal/btree_read_average_duration_us", "btree_read_average_duration_seconds", "Average btree read duration."),
    ("internal/cache_read_races", "cache_read_races_total", "Counts instances where while data was being read from the cache, the bucket was reused and invalidated - i.e. where the pointer was stale after the read completed."),
)
_OF_BACKING = (
    ("dirty_data", "dirty_data_bytes", "Amount of dirty data for this backing device in the cache."),
    ("stats_total/bypassed", "bypassed_bytes_total", "Amount of IO (both reads and writes) that has bypassed the cache."),
    ("stats_total/cache_hits", "cache_hits_total", "Hits counted per individual IO as bcache sees them."),
    ("stats_total/cache_misses", "cache_misses_total", "Misses counted per individual IO as bcache sees them."),
    ("stats_total/cache_bypass_hits", "cache_bypass_hits_total", "Hits for IO intended to skip the cache."),
    ("stats_total/cache_bypass_misses", "cache_bypass_misses_total", "Misses for IO intended to skip the cache."),
    ("stats_total/cache_miss_collisions", "cache_miss_collisions_total", "Instances where data insertion from cache miss raced with write (data already present)."),
    ("stats_total/cache_readaheads", "cache_readaheads_total", "Count of times readahead occurred."),
)
_OF_WRITEBACK = (
    ("target", "dirty_target_bytes", "Current dirty data target threshold for this backing device in bytes."),
    ("rate", "writeback_rate", "Current writeback rate for this backing device in bytes."),
    ("proportional", "writeback_rate_proportional_term", "Current result of proportional controller, part of writeback rate"),
    ("integral", "writeback_rate_integral_term", "Current result of integral controller, part of writeback rate"),
    ("change", "writeback_change", "Last writeback rate change step for this backing device."),
)
_OF_CACHE = (
    ("io_errors", "io_errors", "Number of errors that have occurred, decayed by io_error_halflife."),
    ("metadata_written", "metadata_written_bytes_total", "Sum of all non data writes (btree writes and all other metadata)."),
    ("written", "written_bytes_total", "Sum of all data that has been written to the cache."),
)
_OF_PRIORITY = (
    ("Unused", "priority_stats_unused_percent", "The percentage of the cache that doesn't contain any data."),
    ("Metadata", "priority_stats_metadata_percent", "Bcache's metadata overhead."),
)
# fmt: on
_KINDS = (
    (_OF_SET, _SET, ()),
    (_OF_BACKING, f"{_SET}/bdev*", ("backing_device",)),
    (_OF_WRITEBACK, f"{_SET}/bdev*/writeback_rate_debug", ("backing_device",)),
    (_OF_CACHE, f"{_SET}/cache*", ("cache_device",)),
    (_OF_PRIORITY, f"{_SET}/cache*/priority_stats", ("cache_device",)),
)
METRICS = Table(
    *(
        Metric(
            f"node_bcache_{name}",
            "counter" if name.endswith("_total") else "gauge",
            about,
            source,
            ("uuid", *labels),
            next((u for u in ("bytes", "seconds") if name.removesuffix("_total").endswith(u)), ""),
        )
        for rows, source, labels in _KINDS
        for _, name, about in rows
    )
)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    bcache_priority_stats: bool = option(
        "collector.bcache.priorityStats",
        False,
        "also read the cache devices' priority statistics, which is expensive",
    )


_SIZE = re.compile(r"(-?)([0-9]+)(?:\.([0-9]{1,4}))?([kMGTPEZY]?)", re.ASCII)
_TENTHS = 10.24  # bch_hprint() writes the remainder, 0 to 1023, divided by 100
Row = tuple[tuple[str, ...], float]


def parse_size(text: str) -> float | None:
    """Parse a number as bcache writes it: `512`, `1.1M`, `-427.5k`; None for anything else."""
    if (match := _SIZE.fullmatch(text)) is None:
        return None
    sign, whole, tenths, unit = match.groups()
    scale = 1 << (10 * " kMGTPEZY".index(unit or " "))
    try:
        value = float(int((int(whole) + int(tenths or 0) / _TENTHS) * scale))
    except OverflowError:
        return None
    return -value if sign else value


def parse_lines(text: str) -> dict[str, str]:
    """Return the values of `key: value` lines without their units `/sec` and `%`."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip().removesuffix("/sec").removesuffix("%") for key, _, value in pairs}


class Bcache:
    """The `bcache` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = f"{machine.sysfs}/fs/bcache"
        self._priority = options.bcache_priority_stats

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        rows: dict[str, list[Row]] = {}
        for uuid in sysfs.listing(self._directory):
            if "-" in uuid:  # others are attributes such as `register`
                for name, row in self._set(uuid):
                    rows.setdefault(f"node_bcache_{name}", []).append(row)
        for metric, samples in rows.items():
            yield METRICS.family(metric, samples)

    def _set(self, uuid: str) -> Iterator[tuple[str, Row]]:
        path = f"{self._directory}/{uuid}"
        for name, value in _sizes(path, _OF_SET):
            scale = (
                1e-9 if name.endswith("_seconds") else 1
            )  # the file is named _us, its unit is ns
            yield name, ((uuid,), value * scale)
        for entry in sysfs.listing_optional(path):
            if entry.startswith("bdev"):
                values = self._backing(f"{path}/{entry}")
            elif entry.startswith("cache") and entry[5:].isdigit():
                values = self._cache(f"{path}/{entry}")
            else:
                continue
            for name, value in values:
                yield name, ((uuid, entry), value)

    def _backing(self, path: str) -> Iterator[tuple[str, float]]:
        yield from _sizes(path, _OF_BACKING)
        lines = parse_lines(sysfs.content(f"{path}/writeback_rate_debug") or "")
        for key, name, _ in _OF_WRITEBACK:
            if (value := parse_size(lines.get(key, ""))) is not None:
                yield name, value

    def _cache(self, path: str) -> Iterator[tuple[str, float]]:
        yield from _sizes(path, _OF_CACHE)
        if self._priority:
            lines = parse_lines(sysfs.content(f"{path}/priority_stats") or "")
            for key, name, _ in _OF_PRIORITY:
                if (text := lines.get(key, "")).isdigit():
                    yield name, float(parse_uint(text))


def _sizes(path: str, rows: tuple[tuple[str, str, str], ...]) -> Iterator[tuple[str, float]]:
    for file, name, _ in rows:
        value = parse_size(sysfs.attribute(f"{path}/{file}") or "")
        if value is not None:
            yield name, value


ENTRY = Entry(
    optional=True,
    build=Bcache,
    metrics=METRICS,
    about="block caches (bcache)",
    options=Options,
    source="<sysfs>/fs/bcache",
)
