import shutil
from pathlib import Path

import pytest

from collectors import netclass
from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError
from collectors.netclass import NetClass, Options, families

PARSERS = {
    "netclass": lambda text: netclass.families({"eth0": {"flags": text, "speed": text}}),
}


@pytest.fixture
def xeon(machine, values) -> dict[str, float]:
    found: dict[str, float] = values(NetClass(machine("xeon"), Options()).collect())
    return found


def _of(device: str, series: dict[str, float]) -> dict[str, float]:
    end = f'{{device="{device}"}}'
    return {
        name.removeprefix("node_network_").removesuffix(end): value
        for name, value in series.items()
        if name.endswith(end)
    }


def test_all_attributes_of_a_device_are_exported(xeon) -> None:
    assert _of("eno1", xeon) == {
        "up": 1,
        "address_assign_type": 0,
        "carrier": 1,
        "carrier_changes_total": 2,
        "carrier_down_changes_total": 1,
        "carrier_up_changes_total": 1,
        "device_id": 0,
        "dormant": 0,
        "flags": 0x1003,
        "iface_id": 2,
        "iface_link": 2,
        "iface_link_mode": 0,
        "mtu_bytes": 1500,
        "name_assign_type": 4,
        "net_dev_group": 0,
        "protocol_type": 1,
        "speed_bytes": 25e9 / 8,
        "transmit_queue_length": 1000,
    }


def test_non_numeric_attributes_are_in_the_info(xeon) -> None:
    assert {series for series in xeon if "eno1" in series and "info" in series} == {
        'node_network_info{address="3c:fd:fe:12:34:56",adminstate="up",broadcast="ff:ff:ff:ff:ff:ff",'
        'device="eno1",duplex="full",ifalias="uplink to tor-1",operstate="up"}'
    }


def test_missing_attribute_is_absent(xeon) -> None:
    loopback = _of("lo", xeon)
    assert "speed_bytes" not in loopback
    assert "name_assign_type" not in loopback
    assert loopback["up"] == 0, "its operstate is unknown"


def test_file_among_the_devices_is_ignored(xeon) -> None:
    assert not any("bonding_masters" in series for series in xeon)


def test_unknown_speed_is_negative_unless_ignored(machine, values, xeon) -> None:
    assert _of("eno2", xeon)["speed_bytes"] == -125000
    options = Options(netclass_ignore_invalid_speed=True)
    found = values(NetClass(machine("xeon"), options).collect())
    assert "speed_bytes" not in _of("eno2", found)
    assert "speed_bytes" in _of("eno1", found)


def test_devices_can_be_ignored(machine, values) -> None:
    options = Options(netclass_ignored_devices="^(lo|cni|veth)")
    found = values(NetClass(machine("xeon"), options).collect())
    assert {s for s in found if "node_network_up" in s} == {
        'node_network_up{device="eno1"}',
        'node_network_up{device="eno2"}',
    }


@pytest.mark.parametrize(
    ("flags", "state"), [("0x1003", "up"), ("0x1002", "down"), ("", "unknown"), ("up?", "unknown")]
)
def test_administrative_state_is_exported(flags: str, state: str, values) -> None:
    (series,) = (s for s in values(families({"eth0": {"flags": flags}})) if "info" in s)
    assert f'adminstate="{state}"' in series


def test_invalid_value_is_absent_and_affects_no_other_device(values) -> None:
    found = values(families({"eth0": {"mtu": "N/A", "flags": ""}, "eth1": {"mtu": "9000"}}))
    assert _of("eth0", found) == {}
    assert _of("eth1", found) == {"mtu_bytes": 9000}


def test_devices_are_added_and_removed(tmp_path: Path, values) -> None:
    collector = NetClass(Host(sysfs=tmp_path), Options())
    for name in ("eth0", "eth1"):
        (tmp_path / "class/net" / name).mkdir(parents=True)
        (tmp_path / "class/net" / name / "mtu").write_text("1500\n")
    assert len([s for s in values(collector.collect()) if "mtu" in s]) == 2
    shutil.rmtree(tmp_path / "class/net/eth0")
    assert [s for s in values(collector.collect()) if "mtu" in s] == [
        'node_network_mtu_bytes{device="eth1"}'
    ]


def test_replaced_device_has_its_own_index(tmp_path: Path, values) -> None:
    collector = NetClass(Host(sysfs=tmp_path), Options())
    (tmp_path / "class/net").mkdir(parents=True)
    for index in ("3", "7"):
        device = tmp_path / f"device{index}"
        device.mkdir()
        (device / "ifindex").write_text(f"{index}\n")
        (tmp_path / "class/net/new").symlink_to(device)
        (tmp_path / "class/net/new").rename(tmp_path / "class/net/eth0")
        found = values(collector.collect())
        assert found['node_network_iface_id{device="eth0"}'] == float(index)


def test_machine_without_network_devices_exports_nothing(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        NetClass(Host(sysfs=tmp_path), Options()).collect()


def test_changed_file_and_removed_device_show_in_the_next_scrape(plant, values, tmp_path) -> None:
    host = plant({"sys/class/net/eth0/mtu": "1500\n", "sys/class/net/eth1/mtu": "9000\n"})
    collector = NetClass(host, Options())
    before = values(collector.collect())
    assert values(collector.collect()) == before
    plant({"sys/class/net/eth0/mtu": "1400\n"})
    shutil.rmtree(tmp_path / "sys/class/net/eth1")
    found = values(collector.collect())
    assert found['node_network_mtu_bytes{device="eth0"}'] == 1400
    assert not any("eth1" in series for series in found)
