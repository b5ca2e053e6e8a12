"""bcachefs: counters, compression, errors and devices of each file system, from <sysfs>/fs/bcachefs."""

import math
import re
from collections.abc import Iterator, Mapping

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, MetricType
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_uint

_FS = "<sysfs>/fs/bcachefs/<uuid>"


def _row(name: str, kind: MetricType, about: str, file: str, *labels: str) -> Metric:
    unit = "bytes" if name.removesuffix("_total").endswith("bytes") else ""
    source = f"{_FS}/{file}"
    return Metric(f"node_bcachefs_{name}", kind, about, source, ("uuid", *labels), unit)


METRICS = Table(
    _row("info", "gauge", "Filesystem information.", ""),
    _row(
        "btree_cache_size_bytes", "gauge", "Btree cache memory usage in bytes.", "btree_cache_size"
    ),
    _row(
        "compression_compressed_bytes",
        "gauge",
        "Compressed size by algorithm.",
        "compression_stats",
        "algorithm",
    ),
    _row(
        "compression_uncompressed_bytes",
        "gauge",
        "Uncompressed size by algorithm.",
        "compression_stats",
        "algorithm",
    ),
    _row("errors_total", "counter", "Error count by error type.", "errors", "error_type"),
    _row(
        "btree_writes_total",
        "counter",
        "Number of btree writes by type.",
        "btree_write_stats",
        "type",
    ),
    _row(
        "btree_write_average_size_bytes",
        "gauge",
        "Average btree write size by type.",
        "btree_write_stats",
        "type",
    ),
    _row("device_info", "gauge", "Device information.", "dev-*/state", "device", "label", "state"),
    _row("device_bucket_size_bytes", "gauge", "Bucket size in bytes.", "dev-*/bucket_size", "device"),
    _row("device_buckets", "gauge", "Total number of buckets.", "dev-*/nbuckets", "device"),
    _row("device_durability", "gauge", "Device durability setting.", "dev-*/durability", "device"),
    _row(
        "device_io_done_bytes_total",
        "counter",
        "IO bytes by operation type and data type.",
        "dev-*/io_done",
        *("device", "operation", "data_type"),
    ),
    _row(
        "device_io_errors_total",
        "counter",
        "IO errors by error type.",
        "dev-*/io_errors",
        *("device", "type"),
    ),
    _row(
        "<counter>_total",
        "counter",
        "Bcachefs counter <counter> since filesystem creation.",
        "counters",
    ),
)  # fmt: skip
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kmgtpe]?)", re.ASCII | re.IGNORECASE)
_SINCE_CREATION = "since filesystem creation:"
_TIME = 10  # digits of a time stamp
Row = tuple[str, tuple[str, ...], float]
"""A metric's name after node_bcachefs_, its labels after the UUID, its value."""


def parse_size(text: str) -> float | None:
    """Parse a number as bcachefs writes it: `720`, `2.05G`; None for anything else."""
    if (match := _SIZE.fullmatch(text.strip())) is None:
        return None
    size = float(match[1]) * (1 << (10 * " kmgtpe".index(match[2].lower() or " ")))
    return float(int(size)) if math.isfinite(size) else None


def parse_errors(text: str) -> Iterator[Row]:
    """Yield the counts of lines `type count time`. A large count reaches into the column of the time."""
    for line in text.splitlines():
        match line.split():
            case [kind, count, _] if count.isdigit():
                yield "errors_total", (kind,), float(parse_uint(count[:20]))
            case [kind, both] if both.isdigit() and len(both) > _TIME:
                yield "errors_total", (kind,), float(parse_uint(both[:-_TIME][:20]))
            case _:
                pass


def parse_table(text: str, names: tuple[str, str]) -> Iterator[Row]:
    """Yield two columns of a table with a header, as these metrics."""
    for line in text.splitlines()[1:]:
        words = line.split()
        for name, word in zip(names, words[1:], strict=False):
            if (value := parse_size(word)) is not None:
                yield name, (words[0].rstrip(":"),), value


def parse_io_done(device: str, text: str) -> Iterator[Row]:
    """Yield bytes by operation, a line `read:` or `write:`, and by kind of data, the lines below."""
    operation = ""
    for line in text.splitlines():
        key, _, value = (word.strip() for word in line.partition(":"))
        if not value:
            operation = key
        elif operation and (number := parse_size(value)) is not None:
            yield "device_io_done_bytes_total", (device, operation, key), number


def parse_io_errors(device: str, text: str) -> Iterator[Row]:
    """Yield errors since the file system's creation, which are in the first section."""
    sections = text.split("IO errors since ")
    for line in sections[1].splitlines()[1:] if len(sections) > 1 else ():
        key, _, value = (word.strip() for word in line.partition(":"))
        if key and (number := parse_size(value)) is not None:
            yield "device_io_errors_total", (device, key), number


class Bcachefs:
    """The `bcachefs` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = f"{machine.sysfs}/fs/bcachefs"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        rows: dict[str, dict[tuple[str, ...], float]] = {}
        for uuid in sysfs.listing(self._directory):
            path = f"{self._directory}/{uuid}"
            entries = sysfs.listing_optional(path)
            for name, labels, value in _file_system(path, entries) if entries else ():
                rows.setdefault(f"node_bcachefs_{name}", {})[uuid, *labels] = value
        for metric, samples in rows.items():
            yield METRICS.family(metric, samples.items())


def _file_system(path: str, entries: Mapping[str, int]) -> Iterator[Row]:
    yield "info", (), 1.0
    yield from _sizes(path, {"btree_cache_size": "btree_cache_size_bytes"})
    compression = ("compression_compressed_bytes", "compression_uncompressed_bytes")
    yield from parse_table(sysfs.content(f"{path}/compression_stats") or "", compression)
    writes = ("btree_writes_total", "btree_write_average_size_bytes")
    yield from parse_table(sysfs.content(f"{path}/btree_write_stats") or "", writes)
    yield from parse_errors(sysfs.content(f"{path}/errors") or "")
    for counter in sysfs.listing_optional(f"{path}/counters"):
        for line in (sysfs.content(f"{path}/counters/{counter}") or "").splitlines():
            value = parse_size(line.removeprefix(_SINCE_CREATION))
            if line.startswith(_SINCE_CREATION) and value is not None and counter.isidentifier():
                yield f"{counter}_total", (), value
    for entry in entries:
        if entry.startswith("dev-"):
            yield from _device(entry.removeprefix("dev-"), f"{path}/{entry}")


def _device(device: str, path: str) -> Iterator[Row]:
    label, state = (sysfs.attribute(f"{path}/{file}") or "" for file in ("label", "state"))
    yield "device_info", (device, label, state), 1.0
    files = {
        "bucket_size": "device_bucket_size_bytes",
        "nbuckets": "device_buckets",
        "durability": "device_durability",
    }
    yield from _sizes(path, files, device)
    yield from parse_io_done(device, sysfs.content(f"{path}/io_done") or "")
    yield from parse_io_errors(device, sysfs.content(f"{path}/io_errors") or "")


def _sizes(path: str, files: Mapping[str, str], *labels: str) -> Iterator[Row]:
    for file, name in files.items():
        if (value := parse_size(sysfs.content(f"{path}/{file}") or "")) is not None:
            yield name, labels, value


ENTRY = Entry(
    build=lambda host, _: Bcachefs(host),
    metrics=METRICS,
    about="bcachefs file systems and their devices",
    source="<sysfs>/fs/bcachefs",
)
