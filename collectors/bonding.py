"""Bonded network devices: configured and active slaves, from <sysfs>/class/net."""

from collections.abc import Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs

_NET = "<sysfs>/class/net"
METRICS = Table(
    Metric(
        "node_bonding_slaves",
        "gauge",
        "Number of configured slaves per bonding interface.",
        f"{_NET}/*/bonding/slaves",
        ("master",),
    ),
    Metric(
        "node_bonding_active",
        "gauge",
        "Number of active slaves per bonding interface.",
        f"{_NET}/*/lower_*/bonding_slave/mii_status",
        ("master",),
    ),
)


class Bonding:
    """The `bonding` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._net = machine.sysfs / "class/net"

    def collect(self) -> Iterator[Family]:
        """Read the source now. Bonds without a readable list of slaves were removed in between."""
        counts: dict[str, tuple[int, int]] = {}
        for master in _names(host.read(self._net / "bonding_masters")):
            slaves = host.read_guarded(self._net / master / "bonding/slaves")
            if slaves is not None:
                names = _names(slaves)
                counts[master] = len(names), sum(self._is_up(master, name) for name in names)
        yield METRICS.family(
            "node_bonding_slaves", (((name,), float(n)) for name, (n, _) in counts.items())
        )
        yield METRICS.family(
            "node_bonding_active", (((name,), float(n)) for name, (_, n) in counts.items())
        )

    def _is_up(self, master: str, slave: str) -> bool:
        # Before Linux 3.9 the link was named slave_<device>.
        for link in (f"lower_{slave}", f"slave_{slave}"):
            status = sysfs.attribute(f"{self._net}/{master}/{link}/bonding_slave/mii_status")
            if status is not None:
                return status == "up"
        return False


def _names(text: str) -> list[str]:
    return [name for name in text.split() if "/" not in name and "\0" not in name]


ENTRY = Entry(
    build=lambda host, _: Bonding(host),
    metrics=METRICS,
    about="slaves of bonded network devices",
    source="<sysfs>/class/net/bonding_masters",
)
