"""Number of ARP entries per network device, from <procfs>/net/arp.

node_exporter reads the same table by netlink. Only entries that this machine publishes for others (proxy ARP) are in the file
alone; `--no-collector.arp.netlink` counts these too, in both programs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import netroot
from collectors.shared.formats.numerals import parse_hex
from collectors.shared.formats.patterns import DeviceFilter, regexp
from plimsoll.flags import option

METRICS = Table(
    Metric("node_arp_entries", "gauge", "ARP entries by device", "<procfs>/1/net/arp", ("device",))
)

_COLUMNS = 6  # IP address, HW type, flags, HW address, mask, device
_PUBLISHED = 0x08  # ATF_PUBL: published for another machine


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    arp_device_include: str = option(
        "collector.arp.device-include",
        "",
        "count only on devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    arp_device_exclude: str = option(
        "collector.arp.device-exclude",
        "",
        "do not count on devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    arp_netlink: bool = option(
        "collector.arp.netlink", True, "count entries as netlink lists them, without proxy entries"
    )


def parse(text: str, *, proxies: bool = False) -> dict[str, int]:
    """Return the number of entries by device, with or without published ones."""
    entries: dict[str, int] = {}
    for device, flags in guard.readable(text.splitlines()[1:], _entry):
        if proxies or not flags & _PUBLISHED:
            entries[device] = entries.get(device, 0) + 1
    return entries


def _entry(line: str) -> tuple[str, int]:
    """Return device and flags of a line."""
    columns = line.split()
    if len(columns) != _COLUMNS:
        raise CollectorError(f"arp: unexpected line {line[:80]!r}")
    try:
        return columns[-1], parse_hex(columns[2].removeprefix("0x"))
    except ValueError as error:
        raise CollectorError(f"arp: flags: {error}") from error


class Arp:
    """The `arp` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._path = netroot.directory(machine) / "arp"
        self._filter = DeviceFilter(options.arp_device_include, options.arp_device_exclude)
        self._proxies = not options.arp_netlink

    def collect(self) -> Iterator[Family]:
        """Read the source. An empty table has no sample."""
        counts = parse(host.read(self._path), proxies=self._proxies)
        yield METRICS.family(
            "node_arp_entries",
            (
                ((device,), float(count))
                for device, count in counts.items()
                if not self._filter.ignores(device)
            ),
        )


ENTRY = Entry(build=Arp, metrics=METRICS, about="the ARP table's size by device", options=Options)
