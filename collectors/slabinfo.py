"""Kernel slab memory by cache, from <procfs>/slabinfo, which only root may read."""

from collections.abc import Iterator
from dataclasses import dataclass

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint
from collectors.shared.formats.patterns import DeviceFilter, regexp
from plimsoll.flags import option

_SOURCE = "<procfs>/slabinfo"


def _row(name: str, text: str, unit: str = "") -> Metric:
    return Metric(f"node_slabinfo_{name}", "gauge", text, _SOURCE, ("slab",), unit)


# In the order of a line's numbers.
METRICS = Table(
    _row("active_objects", "The number of objects that are currently active (i.e., in use)."),
    _row(
        "objects",
        "The total number of allocated objects (i.e., objects that are both in use and not in use).",
    ),
    _row("object_size_bytes", "The size of objects in this slab, in bytes.", "bytes"),
    _row("objects_per_slab", "The number of objects stored in each slab."),
    _row("pages_per_slab", "The number of pages allocated for each slab."),
)
_COLUMNS = len(list(METRICS))
_COUNTS = 2  # active objects and objects; the other columns are sizes
HEAD = "slabinfo - version: 2."


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    slabinfo_include: str = option(
        "collector.slabinfo.slabs-include",
        ".*",
        "regular expression of the slabs to export",
        metavar="REGEXP",
        parse=regexp,
    )
    slabinfo_exclude: str = option(
        "collector.slabinfo.slabs-exclude",
        "",
        "regular expression of the slabs to leave out",
        metavar="REGEXP",
        parse=regexp,
    )


def parse(text: str, slabs: DeviceFilter) -> Iterator[Family]:
    """Yield the families of selected slabs, in version 2 of the format (since Linux 2.6.10)."""
    if not text.startswith(HEAD):
        raise CollectorError(f"slabinfo: unexpected first line {text[:80]!r}")
    by_slab: dict[str, list[int]] = {}
    lines = [line for line in text.splitlines()[1:] if not line.startswith("#")]
    for name, numbers in guard.readable(lines, _slab):
        if (before := by_slab.setdefault(name, numbers)) is not numbers:
            # Two devices of one driver: objects are added up, sizes are those of the first.
            before[:_COUNTS] = [a + b for a, b in zip(before, numbers[:_COUNTS], strict=False)]
    if not by_slab:
        raise CollectorError("slabinfo: no slab in it")
    rows = [((name,), numbers) for name, numbers in by_slab.items() if not slabs.ignores(name)]
    if rows:
        for column, metric in enumerate(METRICS):
            yield METRICS.family(
                metric.name, ((labels, numbers[column]) for labels, numbers in rows)
            )


def _slab(line: str) -> tuple[str, list[int]]:
    """Return name and numbers. Names are chosen by drivers and may contain blanks."""
    words = line.partition(" : tunables ")[0].rsplit(maxsplit=_COLUMNS)
    if len(words) <= _COLUMNS:
        raise CollectorError(f"slabinfo: unexpected line {line[:80]!r}")
    name, *numbers = words
    try:
        return name, [parse_uint(number) for number in numbers]
    except ValueError as error:
        raise CollectorError(f"slabinfo: {name[:40]}: {error}") from error


class SlabInfo:
    """The `slabinfo` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._path = machine.procfs / "slabinfo"
        self._slabs = DeviceFilter(options.slabinfo_include, options.slabinfo_exclude)

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        try:
            text = host.read(self._path)
        except CollectorError as error:
            if isinstance(error.__cause__, PermissionError):
                raise CollectorError(
                    f"{self._path} can be read by root only: run the agent as root, or without --collector.slabinfo"
                ) from error
            raise
        return parse(text, self._slabs)


ENTRY = Entry(
    build=SlabInfo,
    metrics=METRICS,
    about="the kernel's slabs",
    on=False,
    options=Options,
    needs="root",
)
