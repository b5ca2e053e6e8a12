"""The table of collectors: a name here is its module, its flag --collector.<name> and its `collector` label."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collectors import cpu, loadavg, meminfo, pressure, synthetic, textfile, vmstat
from collectors.cpu import Cpu
from collectors.host import Host
from collectors.loadavg import LoadAvg
from collectors.meminfo import MemInfo
from collectors.metric import Table
from collectors.pressure import Pressure
from collectors.sample import Collector
from collectors.synthetic import Synthetic
from collectors.textfile import TextFile
from collectors.vmstat import VmStat


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Of a collector that has no flags of its own."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How to build a collector, what it can emit, whether it is on by default, and the dataclass of its own flags.

    `open_ended`: it can yield metrics of any name, beside those in its table.
    """

    build: Callable[[Host, Any], Collector]
    metrics: Table
    about: str
    on: bool = True
    options: type[Any] = NoOptions
    open_ended: bool = False


# In the order in which they run. Where two export the same series the first one's is kept, so the open-ended come last.
COLLECTORS: Mapping[str, Entry] = {
    "cpu": Entry(
        Cpu, cpu.METRICS, "CPU time by mode, throttling, what is online", options=cpu.Options
    ),
    "loadavg": Entry(lambda host, _: LoadAvg(host), loadavg.METRICS, "load averages"),
    "meminfo": Entry(lambda host, _: MemInfo(host), meminfo.METRICS, "memory statistics"),
    "pressure": Entry(
        lambda host, _: Pressure(host), pressure.METRICS, "pressure stall information"
    ),
    "vmstat": Entry(VmStat, vmstat.METRICS, "virtual memory statistics", options=vmstat.Options),
    "textfile": Entry(
        lambda _, options: TextFile(options),
        textfile.METRICS,
        "*.prom files",
        options=textfile.Options,
        open_ended=True,
    ),
    "synthetic": Entry(
        Synthetic,
        synthetic.METRICS,
        "made-up values, for demos and tests",
        on=False,
        options=synthetic.Options,
        open_ended=True,
    ),
}


def build(host: Host, chosen: Mapping[str, Any]) -> dict[str, Collector]:
    """The chosen collectors, by name, in the table's order; `chosen` has each one's options."""
    return {
        name: entry.build(host, chosen[name])
        for name, entry in COLLECTORS.items()
        if name in chosen
    }
