"""Network drivers, supported and advertised link modes, and driver statistics, as in ethtool."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache

from collectors.ethtool.driverinfo import Driver, Ioctl, Link, Modes, Questions
from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import netroot, sysfs
from collectors.shared.formats.patterns import DeviceFilter, regexp
from plimsoll import re2
from plimsoll.flags import option

_IOCTL = "ethtool's ioctl"
_KNOWN = {
    "rx_bytes": ("received_bytes_total", "Network interface bytes received"),
    "rx_dropped": ("received_dropped_total", "Number of received frames dropped"),
    "rx_errors": ("received_errors_total", "Number of received frames with errors"),
    "rx_packets": ("received_packets_total", "Network interface packets received"),
    "tx_bytes": ("transmitted_bytes_total", "Network interface bytes sent"),
    "tx_errors": ("transmitted_errors_total", "Number of sent frames with errors"),
    "tx_packets": ("transmitted_packets_total", "Network interface packets sent"),
}


def _link_row(name: str, about: str, *labels: str, unit: str = "") -> Metric:
    return Metric(f"node_network_{name}", "gauge", about, _IOCTL, ("device", *labels), unit)


METRICS = Table(
    Metric(
        "node_ethtool_info",
        "gauge",
        "A metric with a constant '1' value labeled by bus_info, device, driver, expansion_rom_version, firmware_version, version.",
        _IOCTL,
        ("bus_info", "device", "driver", "expansion_rom_version", "firmware_version", "version"),
    ),
    _link_row("supported_port_info", "Type of ports or PHYs supported by network device", "type"),
    _link_row(
        "supported_speed_bytes",
        "Combination of speeds and features supported by network device",
        *("duplex", "mode"),
        unit="bytes",
    ),
    _link_row("autonegotiate_supported", "If this port device supports autonegotiate"),
    _link_row("pause_supported", "If this port device supports pause frames"),
    _link_row("asymmetricpause_supported", "If this port device supports asymmetric pause frames"),
    _link_row(
        "advertised_speed_bytes",
        "Combination of speeds and features offered by network device",
        *("duplex", "mode"),
        unit="bytes",
    ),
    _link_row("autonegotiate_advertised", "If this port device offers autonegotiate"),
    _link_row("pause_advertised", "If this port device offers pause capability"),
    _link_row(
        "asymmetricpause_advertised", "If this port device offers asymmetric pause capability"
    ),
    _link_row("autonegotiate", "If this port is using autonegotiate"),
    *(
        Metric(f"node_ethtool_{name}", "untyped", about, _IOCTL, ("device",))
        for name, about in _KNOWN.values()
    ),
    Metric(
        "node_ethtool_<field>",
        "untyped",
        "Network interface <field>",  # the driver's name for it, if different
        _IOCTL,
        ("device",),
    ),
)

_PORTS = ("TP", "AUI", "MII", "FIBRE", "BNC", "Backplane")
_CAPABILITIES = {"autonegotiate": "Autoneg", "pause": "Pause", "asymmetricpause": "Asym_Pause"}
_MEGABIT = 125_000.0  # in bytes
_NO_NAME = re.compile(r"_*[^0-9A-Za-z_]+_*")
# A tx directly after the first one is kept, as in node_exporter: tx_tx_timeouts becomes transmitted_tx_timeouts.
_RECEIVE = re.compile(r"(^|_)rx(_|$)")
_TRANSMIT = re.compile(r"(^|_)tx(_|$)")

Row = tuple[Sequence[str], float]


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    ethtool_device_include: str = option(
        "collector.ethtool.device-include",
        "",
        "read only devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    ethtool_device_exclude: str = option(
        "collector.ethtool.device-exclude",
        "",
        "leave out devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    ethtool_metrics_include: str = option(
        "collector.ethtool.metrics-include",
        ".*",
        "export statistics whose name, with _ for characters that metric names cannot contain, matches",
        metavar="REGEXP",
        parse=regexp,
    )


class Families:
    """Collects rows of devices into families."""

    def __init__(self, include: re2.Pattern) -> None:
        self._include = include
        self._rows: dict[str, list[Row]] = {}
        self._helps: dict[str, str] = {}

    def __iter__(self) -> Iterator[Family]:
        for name, rows in self._rows.items():
            family = METRICS.family(name, rows)
            yield replace(family, help=self._helps[name]) if name in self._helps else family

    def add_driver(self, device: str, driver: Driver) -> None:
        """Add the driver of a device."""
        bus, rom, firmware = driver.bus, driver.expansion_rom, driver.firmware
        labels = (bus, device, driver.name, rom, firmware, driver.version)
        self._add("node_ethtool_info", labels, 1.0)

    def add_link(self, device: str, link: Link) -> None:
        """Add supported and advertised link modes of a device."""
        self._add_modes(device, "supported", link.supported)
        self._add_modes(device, "advertised", link.advertised)
        for port in _PORTS:
            if port in link.supported:
                self._add("node_network_supported_port_info", (device, port), 1.0)
        self._add("node_network_autonegotiate", (device,), float(link.autonegotiates))

    def _add_modes(self, device: str, kind: str, modes: Modes) -> None:
        for capability, mode in _CAPABILITIES.items():
            self._add(f"node_network_{capability}_{kind}", (device,), float(mode in modes))
        for duplex, mode, speed in modes.speeds():
            self._add(f"node_network_{kind}_speed_bytes", (device, duplex, mode), speed * _MEGABIT)

    def add_statistics(self, device: str, statistics: Sequence[tuple[str, int]]) -> None:
        """Add a driver's counters. Counters whose names collide are all omitted, because they would be one series."""
        by_name: dict[str, tuple[str, int] | None] = {}
        for statistic, value in statistics:
            plain = sanitized(statistic)
            if self._include.search(plain) is not None and (name := metric_name(plain)):
                by_name[name] = None if name in by_name else (plain, value)
        for name, unique in by_name.items():
            if unique is not None:
                plain, value = unique
                if plain not in _KNOWN:
                    self._helps.setdefault(name, f"Network interface {plain}")
                self._add(name, (device,), float(value))

    def _add(self, name: str, labels: Sequence[str], value: float) -> None:
        self._rows.setdefault(name, []).append((labels, value))


@lru_cache(maxsize=8192)
def sanitized(statistic: str) -> str:
    """Return a driver's name with _ for characters that metric names cannot have."""
    return _NO_NAME.sub("_", statistic)


@lru_cache(maxsize=8192)
def metric_name(statistic: str) -> str:
    """Return the metric for a sanitized name: `port_rx_dropped` becomes node_ethtool_port_received_dropped. Empty if there is none."""
    if statistic in _KNOWN:
        return f"node_ethtool_{_KNOWN[statistic][0]}"
    name = _RECEIVE.sub(r"\1received\2", statistic.lower().lstrip("_"))
    name = _TRANSMIT.sub(r"\1transmitted\2", name)
    return "" if name in {"", "info"} else f"node_ethtool_{name}"


class Ethtool:
    """The `ethtool` collector."""

    def __init__(
        self,
        machine: host.Host,
        options: Options,
        *,
        connect: Callable[[], AbstractContextManager[Questions]] = Ioctl,
    ) -> None:
        self._machine = machine
        self._directory = machine.sysfs / "class/net"
        self._filter = DeviceFilter(options.ethtool_device_include, options.ethtool_device_exclude)
        self._include = re2.compiled(options.ethtool_metrics_include)
        self._connect = connect

    def collect(self) -> Iterator[Family]:
        """Query every device."""
        netroot.require_own(self._machine)
        devices = [d for d in sysfs.listing(self._directory) if not self._filter.ignores(d)]
        families = Families(self._include)
        try:
            with self._connect() as kernel:
                for device in devices:
                    try:
                        _query(kernel, device, families)
                    except OSError as error:
                        guard.skip(f"ethtool: {device}: {error}")
        except OSError as error:
            raise CollectorError(f"ethtool: {error}") from error
        return iter(families)


def _query(kernel: Questions, device: str, families: Families) -> None:
    if (link := kernel.link(device)) is not None:
        families.add_link(device, link)
    if (driver := kernel.driver(device)) is not None:
        families.add_driver(device, driver)
    if (statistics := kernel.statistics(device)) is not None:
        families.add_statistics(device, statistics)


ENTRY = Entry(
    build=Ethtool,
    metrics=METRICS,
    about="network drivers: link modes and their own statistics",
    on=False,
    options=Options,
    needs="hostNetwork",
)
