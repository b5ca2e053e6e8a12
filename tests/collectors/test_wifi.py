import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.wifi import Options as WifiOptions
from collectors.wifi import Wifi


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A machine with WiFi."""
    (tmp_path / "class/ieee80211").mkdir(parents=True)
    return Host(sysfs=tmp_path)


def message(prefix: str, **attributes: object):
    return {"attrs": [(f"NL80211_{prefix}{name}", value) for name, value in attributes.items()]}


class Kernel:
    """A client, connected to an access point, and a device without a name."""

    def list_dev(self):
        return [
            message("ATTR_", IFNAME="wlan0", IFINDEX=3, WIPHY_FREQ=2412),
            message("ATTR_", WDEV=5),
        ]

    def get_associated_bss(self, ifindex):
        assert ifindex == 3
        elements = {"SSID": b"Caf\xc3\xa9"}
        bss = message("BSS_", BSSID="00:11:22:33:44:55", STATUS=1, INFORMATION_ELEMENTS=elements)
        return message("ATTR_", BSS=bss)

    def get_stations(self, ifindex):
        assert ifindex == 3
        info = message(
            "STA_INFO_",
            CONNECTED_TIME=30,
            INACTIVE_TIME=400,
            SIGNAL=-52,
            RX_BYTES=7,
            RX_BYTES64=1 << 33,
            TX_BYTES=8,
            RX_BITRATE=message("RATE_INFO_", BITRATE=650, BITRATE32=70000),
            TX_BITRATE=message("RATE_INFO_", BITRATE=540),
            TX_PACKETS=9,
        )
        return [message("ATTR_", MAC="aa:bb:cc:dd:ee:ff", STA_INFO=info)]


def test_device_network_and_station_are_exported(host, values) -> None:
    station = '{device="wlan0",mac_address="aa:bb:cc:dd:ee:ff"}'
    assert values(Wifi(host, WifiOptions(), connect=lambda: nullcontext(Kernel())).collect()) == {
        'node_wifi_interface_frequency_hertz{device="wlan0"}': 2_412_000_000,
        'node_wifi_station_info{device="wlan0",bssid="00:11:22:33:44:55",ssid="Caf\u00e9",mode="client"}': 1,
        f"node_wifi_station_connected_seconds_total{station}": 30,
        f"node_wifi_station_inactive_seconds{station}": 0.4,
        f"node_wifi_station_signal_dbm{station}": -52,
        f"node_wifi_station_transmitted_packets_total{station}": 9,
        f"node_wifi_station_receive_bytes_total{station}": 1 << 33,
        f"node_wifi_station_transmit_bytes_total{station}": 8,
        f"node_wifi_station_receive_bits_per_second{station}": 7_000_000_000,
        f"node_wifi_station_transmit_bits_per_second{station}": 54_000_000,
    }


def test_device_without_a_network_has_no_station_info(host, values) -> None:
    class Idle(Kernel):
        def get_associated_bss(self, ifindex):
            return None

        def get_stations(self, ifindex):
            return []

    found = values(Wifi(host, WifiOptions(), connect=lambda: nullcontext(Idle())).collect())
    assert list(found) == ['node_wifi_interface_frequency_hertz{device="wlan0"}']


def test_failing_query_is_an_error(host) -> None:
    class Failing(Kernel):
        def get_stations(self, ifindex):
            raise OSError(100, "Network is down")

    with pytest.raises(CollectorError, match="Network is down"):
        list(Wifi(host, WifiOptions(), connect=lambda: nullcontext(Failing())).collect())


def test_machine_without_wifi_has_no_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Wifi(Host(sysfs=tmp_path), WifiOptions()).collect())


def test_fixture_replaces_the_kernel(tmp_path: Path, values) -> None:
    files = {
        "interfaces.json": [{"name": "wlan0", "frequency": 2412}, {"name": "wlan1"}, {"type": 10}],
        "wlan0/bss.json": {"ssid": "Example", "bssid": "ABEiM0RV", "status": 1},
        "wlan0/stationinfo.json": [
            {
                "hardwareaddr": "qrvM3e7/",
                "connected": 30_000_000_000,
                "inactive": 400_000_000,
                "receivebitrate": 128_000_000,
                "signal": -52,
            }
        ],
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    found = values(Wifi(Host(), WifiOptions(str(tmp_path))).collect())
    station = '{device="wlan0",mac_address="aa:bb:cc:dd:ee:ff"}'
    expected = {
        'node_wifi_interface_frequency_hertz{device="wlan0"}': 2_412_000_000,
        'node_wifi_interface_frequency_hertz{device="wlan1"}': 0,
        'node_wifi_station_info{device="wlan0",bssid="00:11:22:33:44:55",ssid="Example",mode="client"}': 1,
        f"node_wifi_station_connected_seconds_total{station}": 30,
        f"node_wifi_station_inactive_seconds{station}": 0.4,
        f"node_wifi_station_signal_dbm{station}": -52,
        f"node_wifi_station_receive_bits_per_second{station}": 128_000_000,
        f"node_wifi_station_receive_bytes_total{station}": 0,
    }
    assert {series: found[series] for series in expected} == expected


def test_damaged_fixture_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "interfaces.json").write_text("{")
    with pytest.raises(CollectorError, match=r"interfaces\.json"):
        list(Wifi(Host(), WifiOptions(str(tmp_path))).collect())
