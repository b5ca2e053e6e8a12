"""Bytes, packets, errors and drops per network device, from <procfs>/net/dev; addresses of devices on request.

node_exporter queries netlink and sums its counters to the columns of that file, so the numbers are equal, and the file costs
a tenth. The column `receive_nohandler`, which the file lacks, is read from <sysfs>/class/net. `--collector.netdev.netlink`
queries netlink here too; with `--collector.netdev.enable-detailed-metrics` its counters are exported individually.
"""

import dataclasses
import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import netroot, routenetlink, sysfs
from collectors.shared.formats.numerals import parse_uint
from collectors.shared.formats.patterns import DeviceFilter, regexp
from collectors.shared.routenetlink import IpAddress
from plimsoll.flags import option

_STATISTIC = Metric(
    "node_network_<field>_total",
    "counter",
    "Network device statistic <field>.",
    "<procfs>/1/net/dev, <sysfs>/class/net/*/statistics",
    ("device",),
)
_ADDRESS = Metric(
    "node_network_address_info",
    "gauge",
    "node network address by device",
    "netlink",
    ("address", "device", "netmask", "scope"),
)
METRICS = Table(_ADDRESS, _STATISTIC)
_WITH_ALIAS = Table(dataclasses.replace(_STATISTIC, labels=("device", "ifalias")))

_COLUMNS = (
    *("receive_bytes", "receive_packets", "receive_errors", "receive_dropped"),
    *("receive_fifo", "receive_frame", "receive_compressed", "receive_multicast"),
    *("transmit_bytes", "transmit_packets", "transmit_errors", "transmit_dropped"),
    *("transmit_fifo", "transmit_colls", "transmit_carrier", "transmit_compressed"),
)
_HEADER_LINES = 2
# node_exporter's traditional names to those of its detailed ones and netlink's that are summed for them.
_SUMS = {
    "receive_errs": ("receive_errors",),
    "receive_drop": ("receive_dropped", "receive_missed_errors"),
    "receive_fifo": ("receive_fifo_errors",),
    "receive_frame": (
        *("receive_frame_errors", "receive_length_errors"),
        *("receive_over_errors", "receive_crc_errors"),
    ),
    "receive_multicast": ("multicast",),
    "transmit_errs": ("transmit_errors",),
    "transmit_drop": ("transmit_dropped",),
    "transmit_fifo": ("transmit_fifo_errors",),
    "transmit_colls": ("collisions",),
    "transmit_carrier": (
        *("transmit_carrier_errors", "transmit_aborted_errors"),
        *("transmit_heartbeat_errors", "transmit_window_errors"),
    ),
}
_BROADCAST = ipaddress.ip_address("255.255.255.255")
_LINK_LOCAL_MULTICAST = tuple(map(ipaddress.ip_network, ("224.0.0.0/24", "ff02::/16")))

Statistics = Mapping[str, int]
"""A device's counters by name."""


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    netdev_device_include: str = option(
        "collector.netdev.device-include",
        "",
        "read only devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    netdev_device_exclude: str = option(
        "collector.netdev.device-exclude",
        "",
        "leave out devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    netdev_address_info: bool = option(
        "collector.netdev.address-info",
        False,
        "export node_network_address_info; needs pyroute2 and the node's network namespace",
    )
    netdev_detailed_metrics: bool = option(
        "collector.netdev.enable-detailed-metrics",
        False,
        "use the kernel's names and division of the statistics, incompatible with the default",
    )
    netdev_netlink: bool = option(
        "collector.netdev.netlink",
        False,
        "use netlink instead of reading files; needs pyroute2 and the node's network namespace",
    )
    netdev_label_ifalias: bool = option(
        "collector.netdev.label-ifalias", False, "add the label ifalias"
    )


def parse(text: str) -> dict[str, dict[str, int]]:
    """Return statistics by device from <procfs>/net/dev."""
    lines = text.splitlines()
    if len(lines) < _HEADER_LINES:
        raise CollectorError("net/dev: no header")
    return dict(guard.readable(lines[_HEADER_LINES:], _line))


def _line(line: str) -> tuple[str, dict[str, int]]:
    name, colon, numbers = line.rpartition(":")  # a device's name may contain colons
    fields = numbers.split()
    if not colon or len(name.split()) != 1 or len(fields) != len(_COLUMNS):
        raise CollectorError(f"net/dev: unexpected line {line[:80]!r}")
    try:
        return name.strip(), dict(zip(_COLUMNS, map(parse_uint, fields), strict=False))
    except ValueError as error:
        raise CollectorError(f"net/dev: {name.strip()}: {error}") from error


def summed(statistics: Statistics) -> dict[str, int]:
    """Return the statistics with the default names and sums."""
    result = dict(statistics)
    for name, parts in _SUMS.items():
        if parts[0] in result:
            result[name] = sum(result.pop(part, 0) for part in parts)
    return result


class NetDev:
    """The `netdev` collector."""

    def __init__(
        self,
        machine: host.Host,
        options: Options,
        *,
        connect: routenetlink.Connect = routenetlink.connect,
    ) -> None:
        self._machine = machine
        self._path = netroot.directory(machine) / "dev"
        self._class = machine.sysfs / "class/net"
        self._filter = DeviceFilter(options.netdev_device_include, options.netdev_device_exclude)
        self._options = options
        self._connect = connect

    def collect(self) -> Iterator[Family]:
        """Read the sources now."""
        devices = {
            device: {**statistics, **self._unhandled(device)}
            for device, statistics in self._statistics().items()
            if not self._filter.ignores(device)
        }
        if not self._options.netdev_detailed_metrics:
            devices = {device: summed(statistics) for device, statistics in devices.items()}
        yield from self._families(devices)
        if self._options.netdev_address_info:
            yield self._addresses()

    def _statistics(self) -> dict[str, dict[str, int]]:
        if not self._options.netdev_netlink:
            return parse(host.read(self._path))
        netroot.require_own(self._machine)
        return routenetlink.statistics(self._connect)

    def _unhandled(self, device: str) -> dict[str, int]:
        """Return packets for unknown protocols; kernels before 4.6 do not count them."""
        count = sysfs.number(f"{self._class}/{device}/statistics/rx_nohandler")
        return {} if count is None else {"receive_nohandler": count}

    def _families(self, devices: Mapping[str, Statistics]) -> Iterator[Family]:
        table = _WITH_ALIAS if self._options.netdev_label_ifalias else METRICS
        labels = {device: self._labels(device) for device in devices}
        names = dict.fromkeys(name for statistics in devices.values() for name in statistics)
        for name in names:
            yield table.family(
                f"node_network_{name}_total",
                (
                    (labels[device], float(statistics[name]))
                    for device, statistics in devices.items()
                    if name in statistics
                ),
            )

    def _labels(self, device: str) -> tuple[str, ...]:
        if not self._options.netdev_label_ifalias:
            return (device,)
        return device, sysfs.attribute(f"{self._class}/{device}/ifalias") or ""

    def _addresses(self) -> Family:
        netroot.require_own(self._machine)
        listed = routenetlink.addresses(self._connect)
        # Once each: two tunnels may have the same local address and differ only in the remote one.
        rows = dict.fromkeys(
            (str(address.ip), address.device, str(address.prefix), scope(address.ip))
            for address in listed
            if not self._filter.ignores(address.device)
        )
        return METRICS.family("node_network_address_info", ((labels, 1.0) for labels in rows))


def scope(ip: IpAddress) -> str:
    """Return an address's scope in node_exporter's terms."""
    if ip.is_loopback or ip.is_link_local or any(ip in net for net in _LINK_LOCAL_MULTICAST):
        return "link-local"
    return "" if ip.is_multicast or ip.is_unspecified or ip == _BROADCAST else "global"


ENTRY = Entry(
    build=NetDev, metrics=METRICS, about="traffic and errors of network devices", options=Options
)
