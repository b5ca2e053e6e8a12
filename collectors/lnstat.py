"""Statistics of the kernel's network caches per CPU, from all files in <procfs>/net/stat."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import netroot, sysfs
from collectors.shared.formats.numerals import parse_hex

METRICS = Table(
    Metric(
        "node_lnstat_<column>_total",
        "counter",
        "linux network cache stats",
        "<procfs>/1/net/stat/*",
        ("subsystem", "cpu"),
    )
)


@guard.some
def parse(source: str, text: str) -> Iterator[tuple[str, int, float]]:
    """Yield column, CPU and number: a line of names, then a line per CPU."""
    head, *lines = text.splitlines() or [""]
    names = head.split()
    for cpu, line in enumerate(lines):
        words = line.split()
        if len(words) != len(names):
            guard.skip(f"lnstat {source}: {len(words)} numbers for {len(names)} names")
            continue
        for name, word in zip(names, words, strict=True):
            if not name.isidentifier() or not name.isascii():
                continue
            try:
                yield name, cpu, float(parse_hex(word))
            except ValueError as error:
                guard.skip(f"lnstat {source}: {name[:40]} {error}", f"node_lnstat_{name}_total")


class Lnstat:
    """The `lnstat` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = netroot.directory(machine) / "stat"

    def collect(self) -> Iterator[Family]:
        """Read the sources, one per cache."""
        rows: dict[str, dict[tuple[str, str], float]] = {}
        for cache in sysfs.listing(self._directory):
            text = host.read_guarded(self._directory / cache) or ""
            for name, cpu, value in guard.attempt(parse(cache, text)):
                rows.setdefault(name, {})[cache, str(cpu)] = value
        for name, samples in rows.items():
            yield METRICS.family(f"node_lnstat_{name}_total", samples.items())


ENTRY = Entry(
    build=lambda host, _: Lnstat(host),
    metrics=METRICS,
    about="the kernel's network caches",
    on=False,
)
