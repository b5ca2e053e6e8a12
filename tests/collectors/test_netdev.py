import ipaddress
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import pytest

from collectors import netdev
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.netdev import NetDev, Options, parse, scope, summed

PARSERS = {
    "netdev": lambda text: netdev.parse(f"header\nheader\n{text}"),
}


HEAD = "Inter-|   Receive\n face |bytes    packets\n"


def _of(device: str, series: dict[str, float]) -> dict[str, float]:
    end = f'_total{{device="{device}"}}'
    return {
        name.removeprefix("node_network_").removesuffix(end): value
        for name, value in series.items()
        if name.endswith(end)
    }


def test_statistics_have_the_names_of_node_exporter(machine, values) -> None:
    found = values(NetDev(machine("xeon"), Options()).collect())
    assert _of("eno1", found) == {
        "receive_bytes": 9870112233445,
        "receive_packets": 7700112233,
        "receive_errs": 3,
        "receive_drop": 1204,
        "receive_fifo": 2,
        "receive_frame": 5,
        "receive_compressed": 0,
        "receive_multicast": 881200,
        "receive_nohandler": 31,
        "transmit_bytes": 4420099887766,
        "transmit_packets": 5500998877,
        "transmit_errs": 1,
        "transmit_drop": 9,
        "transmit_fifo": 4,
        "transmit_colls": 7,
        "transmit_carrier": 6,
        "transmit_compressed": 0,
    }
    assert len(found) == 3 * 17


def test_names_with_colons_and_adjacent_numbers_are_parsed(machine, values) -> None:
    found = values(NetDev(machine("vm2012"), Options()).collect())
    assert _of("eth0", found)["receive_bytes"] == 4122334455
    assert _of("eth0.100", found)["transmit_packets"] == 9
    assert parse(f"{HEAD}eth0:1:{' 7' * 16}\n")["eth0:1"]["receive_bytes"] == 7
    assert "receive_nohandler" not in _of("eth0", found), "kernels before 4.6 do not count it"


def test_devices_can_be_chosen(machine, values) -> None:
    options = Options(netdev_device_include="^(eno|lo)", netdev_device_exclude="^lo$")
    found = values(NetDev(machine("xeon"), options).collect())
    assert all('device="eno1"' in series for series in found)
    assert found


def test_alias_can_be_a_label(machine, values) -> None:
    found = values(NetDev(machine("xeon"), Options(netdev_label_ifalias=True)).collect())
    assert found['node_network_receive_errs_total{device="eno1",ifalias="uplink to tor-1"}'] == 3
    assert found['node_network_receive_errs_total{device="lo",ifalias=""}'] == 0


def test_detailed_names_can_be_enabled(machine, values) -> None:
    found = values(NetDev(machine("xeon"), Options(netdev_detailed_metrics=True)).collect())
    statistics = _of("eno1", found)
    assert statistics["receive_errors"] == 3
    assert statistics["receive_dropped"] == 1204
    assert "receive_errs" not in statistics


def test_detailed_netlink_counters_sum_to_the_columns_of_the_file() -> None:
    netlink = {
        "receive_bytes": 1, "receive_errors": 2, "receive_dropped": 10, "receive_missed_errors": 5,
        "receive_fifo_errors": 4, "receive_frame_errors": 1, "receive_length_errors": 2,
        "receive_over_errors": 3, "receive_crc_errors": 4, "multicast": 6, "collisions": 7,
        "transmit_errors": 8, "transmit_dropped": 9, "transmit_fifo_errors": 11,
        "transmit_carrier_errors": 1, "transmit_aborted_errors": 2, "transmit_heartbeat_errors": 3,
        "transmit_window_errors": 4,
    }  # fmt: skip
    assert summed(netlink) == {
        "receive_bytes": 1,
        "receive_errs": 2,
        "receive_drop": 15,
        "receive_fifo": 4,
        "receive_frame": 10,
        "receive_multicast": 6,
        "transmit_errs": 8,
        "transmit_drop": 9,
        "transmit_fifo": 11,
        "transmit_colls": 7,
        "transmit_carrier": 10,
    }


class Kernel:
    """A fake pyroute2 with given results."""

    def __init__(self, links: Iterable[object] = (), addresses: Iterable[object] = ()) -> None:
        self.links, self.addresses = links, addresses

    def __call__(self) -> nullcontext["Kernel"]:
        return nullcontext(self)

    def get_links(self):
        return self.links

    def get_addr(self):
        return self.addresses


def test_netlink_gives_the_same_families(tmp_path: Path, values) -> None:
    link = {
        "index": 1,
        "attrs": [("IFLA_IFNAME", "lo"), ("IFLA_STATS64", {"rx_bytes": 5, "multicast": 2})],
    }
    options = Options(netdev_netlink=True)
    collector = NetDev(Host(procfs=tmp_path, sysfs=tmp_path), options, connect=Kernel([link]))
    assert values(collector.collect()) == {
        'node_network_receive_bytes_total{device="lo"}': 5,
        'node_network_receive_multicast_total{device="lo"}': 2,
    }


def test_addresses_are_exported_with_a_flag(machine, values) -> None:
    told = [
        {"index": 1, "prefixlen": 8, "attrs": [("IFA_ADDRESS", "127.0.0.1")]},
        {"index": 1, "prefixlen": 128, "attrs": [("IFA_ADDRESS", "::1")]},
        {"index": 1, "prefixlen": 32, "attrs": [("IFA_ADDRESS", "10.0.0.2"), ("IFA_LOCAL", "10.0.0.1")]},
        {"index": 1, "prefixlen": 32, "attrs": [("IFA_ADDRESS", "10.0.0.3"), ("IFA_LOCAL", "10.0.0.1")]},
    ]  # fmt: skip
    options = Options(netdev_address_info=True)
    collector = NetDev(machine("xeon"), options, connect=Kernel(addresses=told))
    assert [series for series in values(collector.collect()) if "address_info" in series] == [
        'node_network_address_info{address="127.0.0.1",device="lo",netmask="8",scope="link-local"}',
        'node_network_address_info{address="::1",device="lo",netmask="128",scope="link-local"}',
        'node_network_address_info{address="10.0.0.1",device="lo",netmask="32",scope="global"}',
    ]


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("127.0.0.1", "link-local"),
        ("169.254.3.4", "link-local"),
        ("fe80::1", "link-local"),
        ("224.0.0.5", "link-local"),
        ("ff02::1", "link-local"),
        ("10.1.2.3", "global"),
        ("fd00::2", "global"),
        ("2001:db8::1", "global"),
        ("239.1.1.1", ""),
        ("0.0.0.0", ""),
        ("255.255.255.255", ""),
    ],
)
def test_address_scope_is_named(address: str, reach: str) -> None:
    assert scope(ipaddress.ip_address(address)) == reach


def test_machine_without_network_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(NetDev(Host(procfs=tmp_path), Options()).collect())


def test_machine_without_devices_exports_nothing() -> None:
    assert parse(HEAD) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Inter-|\n",
        f"{HEAD}eth0 1 2 3\n",
        f"{HEAD}eth0: 1 2 3\n",
        f"{HEAD}:{' 7' * 16}\n",
        f"{HEAD}eth0:{' 7' * 15} x\n",
        f"{HEAD}eth0:{' 7' * 15} -1\n",
    ],
)
def test_invalid_net_dev_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="net/dev"):
        parse(text)
