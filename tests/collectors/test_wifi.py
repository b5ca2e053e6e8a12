from contextlib import nullcontext

import pytest

from collectors.base.host import Host
from collectors.base.sample import CollectorError, SourceAbsentError
from collectors.wifi import Wifi


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


def test_device_network_and_station_are_exported(values) -> None:
    station = '{device="wlan0",mac_address="aa:bb:cc:dd:ee:ff"}'
    assert values(Wifi(Host(), connect=lambda: nullcontext(Kernel())).collect()) == {
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


def test_device_without_a_network_has_no_station_info(values) -> None:
    class Idle(Kernel):
        def get_associated_bss(self, ifindex):
            return None

        def get_stations(self, ifindex):
            return []

    found = values(Wifi(Host(), connect=lambda: nullcontext(Idle())).collect())
    assert list(found) == ['node_wifi_interface_frequency_hertz{device="wlan0"}']


def test_failing_query_is_an_error() -> None:
    class Failing(Kernel):
        def get_stations(self, ifindex):
            raise OSError(100, "Network is down")

    with pytest.raises(CollectorError, match="Network is down"):
        list(Wifi(Host(), connect=lambda: nullcontext(Failing())).collect())


def test_machine_without_wifi_has_no_source() -> None:
    def absent():
        raise SourceAbsentError("nl80211: no such family")

    with pytest.raises(SourceAbsentError):
        list(Wifi(Host(), connect=absent).collect())
