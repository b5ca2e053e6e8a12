from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.pcidevice import Options, PciDevice, parse_place, parse_speed
from collectors.pcidevice import formats as pciids

PARSERS = {
    "pciids": lambda text: [pciids.parse(text.splitlines(), {"1"})],
}


DEVICES = "sys/bus/pci/devices"
DRIVE = 'segment="0000",bus="3b",device="00",function="0"'


def test_drive_behind_its_port_is_exported(machine, values) -> None:
    found = values(PciDevice(machine("xeon"), Options()).collect())
    assert {s.replace(DRIVE, "*"): v for s, v in found.items() if DRIVE in s and v} == {
        'node_pcidevice_info{*,parent_segment="0000",parent_bus="00",parent_device="1d",parent_function="0",'
        'class_id="0x010802",vendor_id="0x144d",device_id="0xa80a",subsystem_vendor_id="0x144d",'
        'subsystem_device_id="0xa814",revision="0x00"}': 1,
        "node_pcidevice_max_link_transfers_per_second{*}": 16e9,
        "node_pcidevice_current_link_transfers_per_second{*}": 8e9,
        "node_pcidevice_max_link_width{*}": 4,
        "node_pcidevice_current_link_width{*}": 4,
        "node_pcidevice_d3cold_allowed{*}": 1,
        "node_pcidevice_sriov_totalvfs{*}": 32,
        "node_pcidevice_sriov_drivers_autoprobe{*}": 1,
        'node_pcidevice_power_state{*,state="D0"}': 1,
    }
    assert found[f"node_pcidevice_sriov_numvfs{{{DRIVE}}}"] == 0
    assert found[f"node_pcidevice_numa_node{{{DRIVE}}}"] == 0
    assert sum("power_state" in s and DRIVE in s for s in found) == 7


def test_missing_attribute_is_absent(machine, values) -> None:
    found = values(PciDevice(machine("xeon"), Options()).collect())
    bridge = 'segment="0000",bus="00",device="00",function="0"'
    names = {series.partition("{")[0] for series in found if f"{{{bridge}" in series}
    assert names == {
        f"node_pcidevice_{name}" for name in ("info", "d3cold_allowed", "power_state")
    }, "no link, no virtual functions, and NUMA node -1 means none"
    assert any(f'{{{bridge},parent_segment="*"' in series for series in found)


def test_names_are_read_from_a_file(machine, values, tmp_path: Path) -> None:
    (tmp_path / "pci.ids").write_text(
        "144d  Samsung\n\ta80a  PM9A3\n\t\t144d a814  U.2 drive\nC 01  Storage\n"
    )
    options = Options(pcidevice_names=True, pcidevice_ids_file=str(tmp_path / "pci.ids"))
    found = values(PciDevice(machine("xeon"), options).collect())
    (info,) = (s for s in found if s.startswith(f"node_pcidevice_info{{{DRIVE}"))
    assert info.endswith(
        'vendor_name="Samsung",device_name="PM9A3",subsystem_vendor_name="Samsung",'
        'subsystem_device_name="U.2 drive",class_name="Storage"}'
    )  # fmt: skip


def test_names_are_read_from_the_hosts_package(plant, values) -> None:
    host = plant(
        {"usr/share/misc/pci.ids": "8086  Intel\n", f"{DEVICES}/0000:00:1f.0/vendor": "0x8086\n"}
    )
    found = values(PciDevice(host, Options(pcidevice_names=True)).collect())
    assert 'vendor_name="Intel"' in str(found)


def test_missing_file_of_names_is_an_error(machine, tmp_path: Path) -> None:
    options = Options(pcidevice_names=True, pcidevice_ids_file=str(tmp_path / "pci.ids"))
    with pytest.raises(CollectorError, match=r"idsfile.*pci\.ids") as caught:
        list(PciDevice(machine("xeon"), options).collect())
    assert not isinstance(caught.value, SourceAbsentError), "the operator has to be told in the log"


def test_unreadable_file_hides_no_other(plant, values, failing_reads, tmp_path: Path) -> None:
    device = f"{DEVICES}/0000:00:02.0"
    host = plant({f"{device}/current_link_width": "16\n", f"{device}/max_link_speed": "Unknown\n"})
    plant({f"{device}/power_state": "\n", f"{device}/class": "n/a\n"})
    for file in ("max_link_width", "vendor"):
        failing_reads(tmp_path / device / file)
    place = 'segment="0000",bus="00",device="02",function="0"'
    found = values(PciDevice(host, Options()).collect())
    assert found.pop(f"node_pcidevice_current_link_width{{{place}}}") == 16
    (info,) = found
    assert "class_id" not in info


def test_changing_values_are_read_each_time_and_a_new_device_is_found(plant, values) -> None:
    device = f"{DEVICES}/0000:00:02.0/sriov_numvfs"
    collector = PciDevice(plant({device: "0\n"}), Options())
    assert 0 in values(collector.collect()).values()
    plant({device: "8\n", f"{DEVICES}/0000:00:03.0/vendor": "0x10de\n"})
    found = values(collector.collect())
    assert 8 in found.values()
    assert sum("node_pcidevice_info" in series for series in found) == 2


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("0000:3b:00.1", ("0000", "3b", "00", "1")),
        ("10000:e1:00.0", ("10000", "e1", "00", "0")),  # behind a volume management device
        ("pci0000:3a", None),
        ("0000:3b:00", None),
        ("", None),
        ("0000:3b:00.x", None),
        ("1_0:3b:00.1", None),
    ],
)
def test_addresses_are_parsed(location: str, place: tuple[str, ...] | None) -> None:
    assert parse_place(location) == place


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("2.5 GT/s PCIe", 2.5e9),
        ("64.0 GT/s PCIe", 64e9),
        ("8 GT/s", 8e9),
        ("Unknown", None),
        ("Unknown speed", None),
        ("133 MHz PCI-X", None),
        ("", None),
        (" GT/s PCIe", None),
    ],
)
def test_speeds_are_parsed(text: str, speed: float | None) -> None:
    assert parse_speed(text) == speed


def test_missing_pci_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(PciDevice(Host(sysfs=tmp_path), Options()).collect())
