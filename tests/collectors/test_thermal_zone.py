from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError
from collectors.thermal_zone import ThermalZone

THERMAL = "sys/class/thermal"


def test_zones_and_cooling_devices_are_exported(machine, values) -> None:
    assert values(ThermalZone(machine("xeon")).collect()) == {
        'node_thermal_zone_temp{zone="0",type="x86_pkg_temp"}': 42,
        'node_cooling_device_cur_state{name="0",type="Processor"}': 0,
        'node_cooling_device_cur_state{name="1",type="intel_powerclamp"}': -1,
        'node_cooling_device_max_state{name="0",type="Processor"}': 10,
        'node_cooling_device_max_state{name="1",type="intel_powerclamp"}': 50,
    }


def test_unreadable_zone_hides_no_other(plant, values, failing_reads, tmp_path: Path) -> None:
    host = plant(
        {
            f"{THERMAL}/thermal_zone{n}/{file}": text
            for n, temp in enumerate(("-5500\n", "", "hot\n", "-274000\n"))
            for file, text in (("type", "acpitz\n"), ("temp", temp))
        }
    )
    plant({f"{THERMAL}/thermal_zone4/type": "iwlwifi_1\n"})
    failing_reads(tmp_path / THERMAL / "thermal_zone4/temp")
    assert values(ThermalZone(host).collect()) == {
        'node_thermal_zone_temp{zone="0",type="acpitz"}': -5.5
    }


def test_machine_without_zones_exports_nothing(plant, values, tmp_path: Path) -> None:
    (tmp_path / THERMAL).mkdir(parents=True)
    assert values(ThermalZone(plant({})).collect()) == {}


def test_missing_class_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(ThermalZone(Host(sysfs=tmp_path)).collect())
