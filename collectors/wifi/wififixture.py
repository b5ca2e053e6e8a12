"""Replies of nl80211 from the JSON files of node_exporter's --collector.wifi.fixtures."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collectors.interface import host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.shared.routenetlink import Message

_MILLISECOND = 1_000_000  # in nanoseconds, as durations are in the files
_RATE = 100_000  # bits per second, as nl80211 counts
# Key in the file, attribute after NL80211_STA_INFO_, divisor.
_NUMBERS = (
    ("connected", "CONNECTED_TIME", 1000 * _MILLISECOND),
    ("inactive", "INACTIVE_TIME", _MILLISECOND),
    ("signal", "SIGNAL", 1),
    ("transmitretries", "TX_RETRIES", 1),
    ("transmitfailed", "TX_FAILED", 1),
    ("beaconloss", "BEACON_LOSS", 1),
    ("transmittedpackets", "TX_PACKETS", 1),
    ("receivedpackets", "RX_PACKETS", 1),
    ("transmittedbytes", "TX_BYTES64", 1),
    ("receivedbytes", "RX_BYTES64", 1),
)
_RATES = (("transmitbitrate", "TX_BITRATE"), ("receivebitrate", "RX_BITRATE"))


class WifiFixture:
    """Takes the place of a connection to the kernel. Numbers that the files do not have are 0."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names: dict[int, str] = {}

    def list_dev(self) -> list[Message]:
        """Return the devices in interfaces.json."""
        messages = []
        for index, device in enumerate(self._load("interfaces.json"), start=1):
            self._names[index] = name = device.get("name", "")
            frequency = device.get("frequency", 0)
            attributes = {"IFNAME": name, "IFINDEX": index, "WIPHY_FREQ": frequency}
            messages.append(_message("ATTR_", attributes))
        return messages

    def get_associated_bss(self, ifindex: int) -> Message | None:
        """Return the network in the device's bss.json."""
        try:
            network = self._load(f"{self._names[ifindex]}/bss.json")
        except SourceAbsentError:
            return None
        elements = {"SSID": network.get("ssid", "")}
        bss = {
            "BSSID": _address(network.get("bssid", "")),
            "STATUS": network.get("status", 0),
            "INFORMATION_ELEMENTS": elements,
        }
        return _message("ATTR_", {"BSS": _message("BSS_", bss)})

    def get_stations(self, ifindex: int) -> list[Message]:
        """Return the stations in the device's stationinfo.json."""
        try:
            stations = self._load(f"{self._names[ifindex]}/stationinfo.json")
        except SourceAbsentError:
            return []
        return [_station(station) for station in stations]

    def _load(self, file: str) -> Any:
        try:
            return json.loads(host.read_once(self._directory / file))
        except ValueError as error:
            raise CollectorError(f"{self._directory / file}: {error}") from error


def _station(fields: Mapping[str, Any]) -> Message:
    info: dict[str, Any] = {name: fields.get(key, 0) / scale for key, name, scale in _NUMBERS}
    for key, name in _RATES:
        info[name] = _message("RATE_INFO_", {"BITRATE32": fields.get(key, 0) / _RATE})
    address = _address(fields.get("hardwareaddr", ""))
    return _message("ATTR_", {"MAC": address, "STA_INFO": _message("STA_INFO_", info)})


def _address(text: str) -> str:
    return base64.b64decode(text).hex(":")


def _message(prefix: str, attributes: Mapping[str, Any]) -> Message:
    return {"attrs": [(f"NL80211_{prefix}{name}", value) for name, value in attributes.items()]}
