"""Interrupts by line and CPU, from <procfs>/interrupts."""

from collections.abc import Iterator
from dataclasses import dataclass

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared.formats import percpu
from collectors.shared.formats.patterns import DeviceFilter, regexp
from plimsoll.flags import option

METRICS = Table(
    Metric(
        "node_interrupts_total",
        "counter",
        "Interrupt details.",
        "<procfs>/interrupts",
        ("cpu", "type", "info", "devices"),
    )
)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    interrupts_include: str = option(
        "collector.interrupts.name-include",
        "",
        "regular expression of the interrupts to export, by their `type;info;devices`",
        metavar="REGEXP",
        parse=regexp,
    )
    interrupts_exclude: str = option(
        "collector.interrupts.name-exclude",
        "",
        "regular expression of the interrupts to leave out, by their `type;info;devices`",
        metavar="REGEXP",
        parse=regexp,
    )
    interrupts_zeros: bool = option(
        "collector.interrupts.include-zeros", True, "export also counts that are zero"
    )


@guard.some
def parse(text: str, names: DeviceFilter, *, zeros: bool) -> Iterator[Family]:
    """Yield a sample per CPU and line. Rows with too few columns (`ERR`, `MIS`) are sums over all CPUs and omitted."""
    cpus, rows = percpu.split("interrupts", text)
    samples: dict[tuple[str, str, str, str], float] = {}
    for name, cells in rows:
        if len(cells) <= len(cpus):
            continue
        info, devices = _described(name, cells[len(cpus) :])
        if names.ignores(f"{name};{info};{devices}"):
            continue
        counts = percpu.counts("interrupts", name, cells[: len(cpus)])
        for cpu, count in zip(cpus, counts, strict=True):
            if count is not None and (count or zeros):
                samples[cpu, name, info, devices] = count
    if samples:
        yield METRICS.family("node_interrupts_total", samples.items())


def _described(name: str, words: list[str]) -> tuple[str, str]:
    """Return chip and devices of a numbered interrupt, or the description of a named one."""
    if name.isdigit():
        return words[0], " ".join(words[1:])
    return " ".join(words), ""


class Interrupts:
    """The `interrupts` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._path = machine.procfs / "interrupts"
        self._names = DeviceFilter(options.interrupts_include, options.interrupts_exclude)
        self._zeros = options.interrupts_zeros

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path), self._names, zeros=self._zeros)


ENTRY = Entry(
    build=Interrupts, metrics=METRICS, about="interrupts by line and CPU", on=False, options=Options
)
