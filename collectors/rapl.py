"""Energy used by packages, cores and memory, from RAPL's counters in <sysfs>/class/powercap."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import sysfs
from plimsoll.flags import option

_SOURCE = "<sysfs>/class/powercap/*/energy_uj"
METRICS = Table(
    Metric(
        "node_rapl_joules_total",
        "counter",
        "Current RAPL value in joules",
        _SOURCE,
        ("index", "path", "rapl_zone"),
    ),
    Metric(
        "node_rapl_<zone>_joules_total",
        "counter",
        "Current RAPL <zone> value in joules",
        _SOURCE,
        ("index", "path"),
        "joules",
    ),
)

_MICROJOULES = 1_000_000
_NOT_IN_NAMES = re.compile("_*[^a-zA-Z0-9_]+_*")


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    rapl_zone_label: bool = option(
        "collector.rapl.enable-zone-label",
        False,
        "name the zone in a label of node_rapl_joules_total, not in the name of the metric",
    )


class Zone(NamedTuple):
    """A counter: its name, its index among those of that name, and its directory in the syntax of flags."""

    name: str
    number: str
    path: str


def zones(directory: str, names: Sequence[str]) -> list[Zone]:
    """Return the zones of a listing. Some names end in their index, as package-1; others such as dram are numbered here."""
    listed: list[Zone] = []
    used: dict[str, int] = {}
    for entry in names:
        path = f"{directory}/{entry}"
        if not (name := sysfs.attribute(f"{path}/name")):
            continue  # a directory of settings, not a zone
        name, index = split(name, used)
        used[name] = index + 1
        listed.append(Zone(name, str(index), path))
    return listed


def split(name: str, used: dict[str, int]) -> tuple[str, int]:
    """Return the name without its index, and the index; `used`: the next index of each name."""
    before, dash, after = name.partition("-")
    if before and dash and after.isascii() and after.isdigit() and len(after) < 10:
        return before, int(after)
    return name, used.get(name, 0)


class Rapl:
    """The `rapl` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        directory = f"{machine.sysfs}/class/powercap"
        self._zone_label = options.rapl_zone_label
        self._zones = sysfs.Derived(lambda listings: zones(directory, list(listings[0])), directory)

    def collect(self) -> Iterator[Family]:
        """Read the counters. The kernel shows them to root only, because they can leak secrets."""
        known = self._zones.get()
        energy = {
            zone: microjoules / _MICROJOULES
            for zone in known
            if (microjoules := sysfs.number(f"{zone.path}/energy_uj")) is not None
        }
        if known and not energy:
            raise CollectorError(
                "energy_uj cannot be read: run as root or with CAP_DAC_READ_SEARCH"
            )
        if self._zone_label:
            return iter([_labelled(energy)] if energy else [])
        return _named(energy)


def _labelled(energy: dict[Zone, float]) -> Family:
    rows = (((zone.number, zone.path, zone.name), joules) for zone, joules in energy.items())
    return METRICS.family("node_rapl_joules_total", rows)


def _named(energy: dict[Zone, float]) -> Iterator[Family]:
    by_name: dict[str, list[tuple[Sequence[str], float]]] = {}
    for zone, joules in energy.items():
        by_name.setdefault(zone.name, []).append(((zone.number, zone.path), joules))
    for name, rows in by_name.items():
        metric = f"node_rapl_{_NOT_IN_NAMES.sub('_', name)}_joules_total"
        # HELP has the kernel's name, such as package-0-die-1.
        yield replace(METRICS.family(metric, rows), help=f"Current RAPL {name} value in joules")


ENTRY = Entry(
    build=Rapl,
    metrics=METRICS,
    about="energy used by packages, cores and memory",
    options=Options,
    needs="root",
)
