from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError
from collectors.powersupplyclass import METRICS, Options, PowerSupplyClass

CLASS = "sys/class/power_supply"
BATTERY = {
    "capacity": "98",
    "capacity_level": "Normal",
    "cycle_count": "17",
    "current_now": "1500000",
    "energy_full": "50060000",
    "energy_now": "49450000",
    "manufacturer": "LGC",
    "model_name": "LNV-45N1\xff",
    "power_now": "4830000",
    "present": "1",
    "serial_number": "38109",
    "status": "Discharging",
    "technology": "Li-ion",
    "temp": "-53",
    "time_to_empty_now": "7200",
    "type": "Battery",
    "uevent": "POWER_SUPPLY_NAME=BAT0",
    "voltage_min_design": "10800000",
    "voltage_now": "12229000",
    "charge_behaviour": "[auto] inhibit-charge",
}


@pytest.fixture
def laptop(plant) -> Host:
    plant(
        {f"{CLASS}/AC/{file}": f"{text}\n" for file, text in (("online", "0"), ("type", "Mains"))}
    )
    host: Host = plant({f"{CLASS}/BAT0/{file}": f"{text}\n" for file, text in BATTERY.items()})
    (host.sysfs / "class/power_supply/BAT0/model_name").write_bytes(b"LNV-45N1\xff\n")
    return host


def test_battery_and_mains_adapter_are_exported(laptop, values) -> None:
    battery = '{power_supply="BAT0"}'
    assert values(PowerSupplyClass(laptop, Options()).collect()) == {
        'node_power_supply_online{power_supply="AC"}': 0,
        'node_power_supply_info{power_supply="AC",type="Mains"}': 1,
        f"node_power_supply_capacity{battery}": 98,
        f"node_power_supply_cyclecount{battery}": 17,
        f"node_power_supply_current_ampere{battery}": 1.5,
        f"node_power_supply_energy_full{battery}": 50.06,
        f"node_power_supply_energy_watthour{battery}": 49.45,
        f"node_power_supply_power_watt{battery}": 4.83,
        f"node_power_supply_present{battery}": 1,
        f"node_power_supply_temp_celsius{battery}": -5.3,
        f"node_power_supply_time_to_empty_seconds{battery}": 7200,
        f"node_power_supply_voltage_min_design{battery}": 10.8,
        f"node_power_supply_voltage_volt{battery}": 12.229,
        'node_power_supply_info{power_supply="BAT0",capacity_level="Normal",manufacturer="LGC",model_name="LNV-45N1\ufffd",'
        'serial_number="38109",status="Discharging",technology="Li-ion",type="Battery"}': 1,
    }


def test_removed_battery_exports_available_values(
    plant, values, failing_reads, tmp_path: Path
) -> None:
    host = plant({f"{CLASS}/BAT1/present": "0\n", f"{CLASS}/BAT1/serial_number": "\n"})
    for file in ("voltage_now", "status"):
        failing_reads(tmp_path / CLASS / "BAT1" / file)
    assert values(PowerSupplyClass(host, Options()).collect()) == {
        'node_power_supply_present{power_supply="BAT1"}': 0,
        'node_power_supply_info{power_supply="BAT1"}': 1,
    }


def test_supplies_can_be_excluded(laptop, values) -> None:
    found = values(PowerSupplyClass(laptop, Options(powersupply_ignored="^BAT")).collect())
    assert found.keys() == {
        'node_power_supply_online{power_supply="AC"}',
        'node_power_supply_info{power_supply="AC",type="Mains"}',
    }


def test_server_without_supplies_exports_nothing(tmp_path: Path, values) -> None:
    (tmp_path / "class/power_supply").mkdir(parents=True)
    assert values(PowerSupplyClass(Host(sysfs=tmp_path), Options()).collect()) == {}


def test_missing_class_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(PowerSupplyClass(Host(sysfs=tmp_path), Options()).collect())


def test_help_names_the_value() -> None:
    found = METRICS.find("node_power_supply_energy_watthour")
    assert found is not None
    assert found.help == "energy_watthour value of /sys/class/power_supply/<power_supply>."
