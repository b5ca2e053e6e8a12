"""Memory statistics from <procfs>/meminfo."""

import re
from collections.abc import Iterator
from functools import lru_cache

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint

_KEY = re.compile(r"(\w+)(?:\((\w+)\))?:", re.ASCII)
_KIB = 1024

_IN_BYTES = (
    "Active Active_anon Active_file AnonHugePages AnonPages Bounce Buffers Cached CmaFree CmaTotal CommitLimit "
    "Committed_AS DirectMap1G DirectMap2M DirectMap4k Dirty HardwareCorrupted Hugepagesize Inactive Inactive_anon "
    "Inactive_file KernelStack Mapped MemAvailable MemFree MemTotal Mlocked NFS_Unstable PageTables Percpu "
    "SReclaimable SUnreclaim Shmem ShmemHugePages ShmemPmdMapped Slab SwapCached SwapFree SwapTotal Unevictable "
    "VmallocChunk VmallocTotal VmallocUsed Writeback WritebackTmp Zswap Zswapped"
)
_COUNTS = "HugePages_Free HugePages_Rsvd HugePages_Surp HugePages_Total"


def _metrics() -> Iterator[Metric]:
    """Fields of node_exporter are exact rows; those of later kernels match the templates."""
    for field, unit, known in (
        *((f"{name}_bytes", "bytes", True) for name in _IN_BYTES.split()),
        *((name, "", True) for name in _COUNTS.split()),
        ("<field>_bytes", "bytes", False),
        ("<field>", "", False),
    ):
        described = f"Memory information field {field}."
        yield Metric(
            f"node_memory_{field}", "gauge", described, "<procfs>/meminfo", (), unit, known
        )


METRICS = Table(*_metrics())


def parse(text: str) -> Iterator[Family]:
    """Yield a family per line; `Active(anon)` becomes Active_anon, and kB become bytes with a suffix."""
    if not text.strip():
        raise CollectorError("meminfo: empty")
    seen: set[str] = set()
    for name, value in guard.readable(text.splitlines(), _field):
        if name in seen:
            guard.skip(f"meminfo: {name} appears twice", name)
            continue
        seen.add(name)
        yield METRICS.single(name, value)


def _field(line: str) -> tuple[str, float]:
    key, *rest = line.split() or [""]
    name = _name(key)
    if name is None or len(rest) not in {1, 2} or rest[1:] not in ([], ["kB"]):
        raise CollectorError(f"meminfo: unexpected line {line[:80]!r}")
    try:
        value = float(parse_uint(rest[0]))
    except ValueError as error:
        raise CollectorError(f"meminfo: {key} {error}") from error
    # HugePages_* count pages and have no unit.
    return (f"{name}_bytes", value * _KIB) if rest[1:] else (name, value)


@lru_cache(maxsize=256)
def _name(key: str) -> str | None:
    if (match := _KEY.fullmatch(key)) is None:
        return None
    return "_".join(["node_memory", *filter(None, match.groups())])


class MemInfo:
    """The `meminfo` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "meminfo"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(build=lambda host, _: MemInfo(host), metrics=METRICS, about="memory statistics")
