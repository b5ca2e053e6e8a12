"""WiFi devices and the stations they are connected to, by nl80211."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared import netroot, routenetlink, sysfs
from collectors.shared.routenetlink import Message, attributes_of
from collectors.wifi.wififixture import WifiFixture
from plimsoll.flags import option

_STATION = ("device", "mac_address")
# Attribute after NL80211_STA_INFO_, the metric's name after node_wifi_, its HELP, its unit's share of the metric's.
_NUMBERS = (
    ("CONNECTED_TIME", "station_connected_seconds_total", "The total number of seconds a station has been connected to an access point.", 1),
    ("INACTIVE_TIME", "station_inactive_seconds", "The number of seconds since any wireless activity has occurred on a station.", 1000),
    ("SIGNAL", "station_signal_dbm", "The current WiFi signal strength, in decibel-milliwatts (dBm).", 1),
    ("TX_RETRIES", "station_transmit_retries_total", "The total number of times a station has had to retry while sending a packet.", 1),
    ("TX_FAILED", "station_transmit_failed_total", "The total number of times a station has failed to send a packet.", 1),
    ("BEACON_LOSS", "station_beacon_loss_total", "The total number of times a station has detected a beacon loss.", 1),
    ("TX_PACKETS", "station_transmitted_packets_total", "The total number of packets transmitted by a station.", 1),
    ("RX_PACKETS", "station_received_packets_total", "The total number of packets received by a station.", 1),
)  # fmt: skip
_BYTES = (
    ("RX_BYTES", "station_receive_bytes_total", "The total number of bytes received by a WiFi station."),
    ("TX_BYTES", "station_transmit_bytes_total", "The total number of bytes transmitted by a WiFi station."),
)  # fmt: skip
_RATES = (
    ("RX_BITRATE", "station_receive_bits_per_second", "The current WiFi receive bitrate of a station, in bits per second."),
    ("TX_BITRATE", "station_transmit_bits_per_second", "The current WiFi transmit bitrate of a station, in bits per second."),
)  # fmt: skip


def _row(name: str, about: str, labels: tuple[str, ...] = _STATION) -> Metric:
    counter = name.endswith("_total")
    unit = next((u for u in ("bytes", "seconds") if name.removesuffix("_total").endswith(u)), "")
    return Metric(
        f"node_wifi_{name}", "counter" if counter else "gauge", about, "nl80211", labels, unit
    )


METRICS = Table(
    _row(
        "interface_frequency_hertz",
        "The current frequency a WiFi interface is operating at, in hertz.",
        ("device",),
    ),
    _row(
        "station_info",
        "Labeled WiFi interface station information as provided by the operating system.",
        ("device", "bssid", "ssid", "mode"),
    ),
    *(_row(name, about) for _, name, about, _ in _NUMBERS),
    *(_row(name, about) for _, name, about in (*_BYTES, *_RATES)),
)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    wifi_fixtures: str = option(
        "collector.wifi.fixtures",
        "",
        "read the JSON files in this directory instead of the kernel, for tests",
        metavar="DIR",
    )


_MEGAHERTZ = 1_000_000
_RATE = 100_000  # bits per second
_MODES = {0: "client", 1: "client", 2: "ad-hoc"}
Row = tuple[str, tuple[str, ...], float]
"""A metric's name after node_wifi_, its labels, its value."""


class Socket(Protocol):
    """The queries used of pyroute2's IW."""

    def list_dev(self) -> Iterable[Message]: ...
    def get_associated_bss(self, ifindex: int) -> Message | None: ...
    def get_stations(self, ifindex: int) -> Iterable[Message]: ...


Connect = Callable[[], AbstractContextManager[Socket]]


def connect() -> AbstractContextManager[Socket]:
    """Open a connection to the kernel. Raises SourceAbsentError if it has no WiFi."""
    library = routenetlink.pyroute2("pyroute2.iwutil")
    errors = routenetlink.pyroute2("pyroute2.netlink.exceptions")
    try:
        connection: AbstractContextManager[Socket] = library.IW()
    except (OSError, errors.NetlinkError) as error:
        raise SourceAbsentError(f"nl80211: {error}") from error
    return connection


class Wifi:
    """The `wifi` collector."""

    def __init__(self, machine: host.Host, options: Options, *, connect: Connect = connect) -> None:
        self._machine = machine
        self._class = machine.sysfs / "class/ieee80211"
        self._fixtures = options.wifi_fixtures
        self._connect = connect

    def collect(self) -> Iterator[Family]:
        """Query the kernel, or read the fixture."""
        if self._fixtures:
            yield from _families(_rows(WifiFixture(Path(self._fixtures))))
            return
        sysfs.listing(self._class)  # absent without WiFi; pyroute2 does not close its sockets then
        netroot.require_own(self._machine)
        errors = routenetlink.pyroute2("pyroute2.netlink.exceptions")
        try:
            with self._connect() as connection:
                yield from _families(_rows(connection))
        except (OSError, errors.NetlinkError, errors.NetlinkDecodeError) as error:
            raise CollectorError(f"nl80211: {error}") from error


def _families(found: Iterable[Row]) -> list[Family]:
    rows: dict[str, dict[tuple[str, ...], float]] = {}
    for name, labels, value in found:
        rows.setdefault(name, {})[labels] = value
    return [METRICS.family(f"node_wifi_{name}", values.items()) for name, values in rows.items()]


def _rows(connection: Socket) -> Iterator[Row]:
    for interface in list(connection.list_dev()):
        attributes = attributes_of(interface)
        device, index = (
            attributes.get("NL80211_ATTR_IFNAME"),
            attributes.get("NL80211_ATTR_IFINDEX"),
        )
        if not device or index is None:  # a virtual device without a name
            continue
        if (frequency := attributes.get("NL80211_ATTR_WIPHY_FREQ")) is not None:
            yield "interface_frequency_hertz", (device,), float(frequency * _MEGAHERTZ)
        if (network := connection.get_associated_bss(index)) is not None:
            yield "station_info", (device, *_network(attributes_of(network), attributes)), 1.0
        for station in list(connection.get_stations(index)):
            station_attributes = attributes_of(station)
            address = str(station_attributes.get("NL80211_ATTR_MAC", ""))
            details = attributes_of(station_attributes.get("NL80211_ATTR_STA_INFO") or {})
            for name, value in _station(details):
                yield name, (device, address), value


def _network(attributes: Mapping[str, Any], interface: Mapping[str, Any]) -> tuple[str, str, str]:
    network = attributes_of(attributes.get("NL80211_ATTR_BSS") or {})
    elements = network.get("NL80211_BSS_INFORMATION_ELEMENTS") or {}
    name = interface.get("NL80211_ATTR_SSID") or elements.get("SSID", "")
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    mode = _MODES.get(network.get("NL80211_BSS_STATUS", -1), "unknown")
    return str(network.get("NL80211_BSS_BSSID", "")), text, mode


def _station(attributes: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, name, _, scale in _NUMBERS:
        if (value := attributes.get(f"NL80211_STA_INFO_{key}")) is not None:
            yield name, value / scale
    for key, name, _ in _BYTES:  # 32 bits wide in kernels before 3.16
        wide = attributes.get(f"NL80211_STA_INFO_{key}64")
        if (
            value := attributes.get(f"NL80211_STA_INFO_{key}") if wide is None else wide
        ) is not None:
            yield name, float(value)
    for key, name, _ in _RATES:
        rate = attributes_of(attributes.get(f"NL80211_STA_INFO_{key}") or {})
        wide = rate.get("NL80211_RATE_INFO_BITRATE32")
        if (value := rate.get("NL80211_RATE_INFO_BITRATE") if wide is None else wide) is not None:
            yield name, float(value * _RATE)


ENTRY = Entry(
    build=Wifi,
    metrics=METRICS,
    about="WiFi devices and stations",
    on=False,
    options=Options,
    needs="hostNetwork",
)
