import pytest

from collectors import arp
from collectors.arp import Arp, Options, parse
from collectors.interface.sample import CollectorError

PARSERS = {
    "arp": lambda text: arp.parse(f"header\n{text}"),
}


HEAD = "IP address       HW type     Flags       HW address            Mask     Device\n"


def test_entries_are_counted_by_device_without_published_ones(machine, values) -> None:
    assert values(Arp(machine("xeon"), Options()).collect()) == {
        'node_arp_entries{device="eno1"}': 3,
        'node_arp_entries{device="cni0"}': 1,
    }


def test_all_entries_are_exported_with_a_flag(machine, values) -> None:
    found = values(Arp(machine("xeon"), Options(arp_netlink=False)).collect())
    assert found['node_arp_entries{device="eno1"}'] == 4


def test_devices_can_be_excluded(machine, values) -> None:
    found = values(Arp(machine("xeon"), Options(arp_device_exclude="^cni")).collect())
    assert list(found) == ['node_arp_entries{device="eno1"}']


def test_empty_table_counts_nothing() -> None:
    assert parse(HEAD) == {}


@pytest.mark.parametrize(
    "line",
    [
        "10.0.0.1 0x1 0x2 aa:bb:cc:dd:ee:ff *\n",
        "10.0.0.1 0x1 flags aa:bb:cc:dd:ee:ff * eth0\n",
        "10.0.0.1 0x1 0x2 aa:bb:cc:dd:ee:ff * eth0 more\n",
        "\n",
    ],
)
def test_invalid_arp_table_is_rejected(line: str) -> None:
    with pytest.raises(CollectorError, match="arp"):
        parse(HEAD + line)
