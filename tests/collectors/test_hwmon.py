from pathlib import Path

import pytest

from collectors.hwmon import HwMon, Options
from collectors.hwmon.sensors import METRICS, clean, meaning, split
from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError

CHIP = "sys/class/hwmon/hwmon0"


def test_sensors_of_a_server_are_exported(machine, values) -> None:
    found = values(HwMon(machine("xeon"), Options()).collect())
    assert found['node_hwmon_chip_names{chip="platform_coretemp_1",chip_name="coretemp"}'] == 1
    assert found['node_hwmon_temp_celsius{chip="platform_coretemp_0",sensor="temp1"}'] == 41
    assert found['node_hwmon_temp_celsius{chip="platform_coretemp_1",sensor="temp3"}'] == -1
    assert found['node_hwmon_temp_celsius{chip="nvme_nvme0",sensor="temp1"}'] == 34.85
    assert found['node_hwmon_temp_alarm{chip="nvme_nvme0",sensor="temp1"}'] == 0
    label = 'chip="platform_coretemp_0",sensor="temp2",label="Core 0"'
    assert found[f"node_hwmon_sensor_label{{{label}}}"] == 1
    assert not any("power" in series for series in found), (
        "the directory of runtime power management"
    )


def test_every_kind_of_sensor_is_exported(plant, values) -> None:
    host = plant(
        {
            f"{CHIP}/{file}": f"{text}\n"
            for file, text in {
                "name": "nct6779",
                "in0_input": "744",
                "in0_min": "0",
                "cpu0_vid": "1200",
                "curr1_input": "2500",
                "energy1_input": "2500000",
                "fan1_input": "1098",
                "fan1_div": "4",
                "fan1_pulses": "2",
                "fan1_fault": "1",
                "fan2": "900",
                "fan2_input": "901",
                "freq1_input": "214000000",
                "freq1_label": "sclk",
                "freq2_input": "300000000",
                "humidity1_input": "450000",
                "intrusion0_alarm": "1",
                "intrusion0_beep": "0",
                "power1_average": "19500000",
                "power1_average_interval": "1000",
                "power1_accuracy": "500000",
                "power1_cap_is_infinite": "0",
                "pwm1": "153",
                "pwm1_enable": "5",
                "temp1_type": "3",
                "temp1_crit_hyst": "81000",
                "update_interval": "1000",
                "vrm": "13",
                "beep_enable": "1",
                "uevent": "",
                "temperature_of_old": "7",
            }.items()
        }
    )
    found = values(HwMon(host, Options()).collect())
    chip = 'chip="nct6779",sensor='
    assert found == {
        'node_hwmon_chip_names{chip="nct6779",chip_name="nct6779"}': 1,
        f'node_hwmon_sensor_label{{{chip}"freq1",label="sclk"}}': 1,
        f'node_hwmon_in_volts{{{chip}"in0"}}': 0.744,
        f'node_hwmon_in_min_volts{{{chip}"in0"}}': 0,
        f'node_hwmon_cpu_vid_volts{{{chip}"cpu0"}}': 1.2,
        f'node_hwmon_curr_amps{{{chip}"curr1"}}': 2.5,
        f'node_hwmon_energy_joule_total{{{chip}"energy1"}}': 2.5,
        f'node_hwmon_fan_rpm{{{chip}"fan1"}}': 1098,
        f'node_hwmon_fan_div{{{chip}"fan1"}}': 4,
        f'node_hwmon_fan_pulses{{{chip}"fan1"}}': 2,
        f'node_hwmon_fan_fault{{{chip}"fan1"}}': 1,
        f'node_hwmon_fan{{{chip}"fan2"}}': 900,
        f'node_hwmon_fan_input_rpm{{{chip}"fan2"}}': 901,
        f'node_hwmon_freq_freq_mhz{{{chip}"sclk"}}': 214,
        f'node_hwmon_humidity{{{chip}"humidity1"}}': 0.45,
        f'node_hwmon_intrusion_alarm{{{chip}"intrusion0"}}': 1,
        f'node_hwmon_intrusion_beep_enabled{{{chip}"intrusion0"}}': 0,
        f'node_hwmon_power_average_watt{{{chip}"power1"}}': 19.5,
        f'node_hwmon_power_average_interval_seconds{{{chip}"power1"}}': 1,
        f'node_hwmon_power_accuracy{{{chip}"power1"}}': 0.5,
        f'node_hwmon_power_cap_is_infinite_watt{{{chip}"power1"}}': 0,
        f'node_hwmon_pwm{{{chip}"pwm1"}}': 153,
        f'node_hwmon_pwm_enable{{{chip}"pwm1"}}': 5,
        f'node_hwmon_temp_type{{{chip}"temp1"}}': 3,
        f'node_hwmon_temp_crit_hyst_celsius{{{chip}"temp1"}}': 81,
        f'node_hwmon_update_interval_seconds{{{chip}"update_interval0"}}': 1,
        f'node_hwmon_voltage_regulator_version{{{chip}"vrm0"}}': 13,
        f'node_hwmon_beep_enabled{{{chip}"beep_enable0"}}': 1,
    }


@pytest.mark.parametrize(
    ("name", "kind", "about"),
    [
        ("in_volts", "gauge", "Hardware monitor for voltage (input)"),
        ("in_min_volts", "gauge", "Hardware monitor for voltage (min)"),
        ("temp_crit_alarm_celsius", "gauge", "Hardware monitor for temperature (crit_alarm)"),
        ("temp_alarm", "gauge", "Hardware sensor alarm status (temp)"),
        ("fan_min_alarm", "gauge", "Hardware monitor fan element min_alarm"),
        ("fan_min_rpm", "gauge", "Hardware monitor for fan revolutions per minute (min)"),
        ("energy_joule_total", "counter", "Hardware monitor for joules used so far (input)"),
        ("power_average_interval_max_seconds", "gauge", "Hardware monitor power usage update interval (average_interval_max)"),
        ("pwm_auto_point1_temp", "gauge", "Hardware monitor pwm element auto_point1_temp"),
    ],
)  # fmt: skip
def test_help_names_the_element(name: str, kind: str, about: str) -> None:
    family = METRICS.family(f"node_hwmon_{name}", [(("c", "s"), 1.0)])
    assert (family.type, family.help) == (kind, about)


def test_unreadable_sensor_hides_no_other(plant, values, failing_reads, tmp_path: Path) -> None:
    host = plant({f"{CHIP}/name": "drivetemp\n", f"{CHIP}/temp1_max": "70000\n"})
    failing_reads(tmp_path / CHIP / "temp1_input")
    failing_reads(tmp_path / CHIP / "temp1_label")
    found = values(HwMon(host, Options()).collect())
    assert found == {
        'node_hwmon_chip_names{chip="drivetemp",chip_name="drivetemp"}': 1,
        'node_hwmon_temp_max_celsius{chip="drivetemp",sensor="temp1"}': 70,
    }


@pytest.mark.parametrize("text", ["", "N/A", "1_000", "0x10", "12 34"])
def test_non_number_has_no_sample(plant, values, text: str) -> None:
    host = plant({f"{CHIP}/temp1_input": text})
    assert values(HwMon(host, Options()).collect()) == {}


def test_files_of_old_drivers_are_in_the_device_directory(plant, values, tmp_path: Path) -> None:
    device = "sys/devices/platform/applesmc.768"
    host = plant({f"{device}/fan1_input": "1998\n", f"{device}/fan1_label": "Left side  \n"})
    hwmon = tmp_path / device / "hwmon/hwmon0"
    hwmon.mkdir(parents=True)
    (hwmon / "device").symlink_to("../../../applesmc.768")
    (tmp_path / "sys/class/hwmon").mkdir(parents=True)
    (tmp_path / CHIP).symlink_to("../../devices/platform/applesmc.768/hwmon/hwmon0")
    assert values(HwMon(host, Options()).collect()) == {
        'node_hwmon_fan_rpm{chip="platform_applesmc_768",sensor="fan1"}': 1998,
        'node_hwmon_sensor_label{chip="platform_applesmc_768",sensor="fan1",label="Left side  "}': 1,
    }


def test_chips_of_one_device_are_distinguished_by_name_or_number(
    plant, values, tmp_path: Path
) -> None:
    device = "sys/devices/pci0/0000:01:00.0"
    names = {"hwmon0": "phy-a", "hwmon1": "phy-b", "hwmon2": "twin", "hwmon3": "twin"}
    for chip, name in names.items():
        host = plant(
            {f"{device}/{chip}/name": f"{name}\n", f"{device}/{chip}/temp1_input": "1000\n"}
        )
        (tmp_path / device / chip / "device").symlink_to("..")
        (tmp_path / "sys/class/hwmon").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys/class/hwmon" / chip).symlink_to(f"../../devices/pci0/0000:01:00.0/{chip}")
    found = values(HwMon(host, Options()).collect())
    base = "pci0_0000:01:00_0"
    assert {s for s in found if "temp" in s} == {
        f'node_hwmon_temp_celsius{{chip="{base}_{own}",sensor="temp1"}}'
        for own in ("phy_a", "phy_b", "hwmon2", "hwmon3")
    }


@pytest.mark.parametrize(
    ("options", "sensors"),
    [
        (Options(hwmon_chip_include="coretemp"), {"0;1", "0;2", "0;3", "1;1", "1;2", "1;3"}),
        (Options(hwmon_chip_exclude="nvme|_1$"), {"0;1", "0;2", "0;3"}),
        (Options(hwmon_sensor_include="coretemp_0;temp[12]$"), {"0;1", "0;2"}),
        (Options(hwmon_chip_include="coretemp", hwmon_sensor_exclude=";temp1$"), {"0;2", "0;3", "1;2", "1;3"}),
    ],
)  # fmt: skip
def test_chips_and_sensors_can_be_chosen(machine, values, options: Options, sensors) -> None:
    found = values(HwMon(machine("xeon"), options).collect())
    temperatures = {s.partition("{")[2] for s in found if s.startswith("node_hwmon_temp_celsius")}
    assert temperatures == {
        f'chip="platform_coretemp_{chip}",sensor="temp{sensor}"}}'
        for chip, sensor in (text.split(";") for text in sensors)
    }


def test_sensors_follow_their_cpu(plant, values, tmp_path: Path) -> None:
    host = plant({f"{CHIP}/temp1_input": "1000\n", f"{CHIP}/temp2_input": "2000\n"})
    collector = HwMon(host, Options())
    assert len(values(collector.collect())) == 2
    (tmp_path / CHIP / "temp1_input").unlink()
    plant({f"{CHIP}/temp3_input": "3000\n", f"{CHIP}/temp3_label": "Core 3\n"})
    assert values(collector.collect()) == {
        'node_hwmon_temp_celsius{chip="hwmon0",sensor="temp2"}': 2,
        'node_hwmon_temp_celsius{chip="hwmon0",sensor="temp3"}': 3,
        'node_hwmon_sensor_label{chip="hwmon0",sensor="temp3",label="Core 3"}': 1,
    }


def test_missing_hwmon_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(HwMon(Host(sysfs=tmp_path), Options()).collect())


@pytest.mark.parametrize(
    ("filename", "parts"),
    [
        ("temp12_crit_alarm", ("temp12", "temp", "crit_alarm")),
        ("temp01_input", ("temp1", "temp", "input")),
        ("pwm1", ("pwm1", "pwm", "")),
        ("vrm", ("vrm0", "vrm", "")),
        ("power", ("power0", "power", "")),
        ("name", None),
        ("fan_boost_mode", None),
        ("tempest1_input", None),
        ("temp99999999999_input", None),
        ("temp1.5_input", None),
        ("1_input", None),
    ],
)
def test_file_name_is_split_into_sensor_and_property(filename: str, parts) -> None:
    assert split(filename) == parts


def test_names_are_sanitized() -> None:
    assert clean("0000:01:00.0") == "0000:01:00_0"
    assert clean(" Asus-WMI Sensors\n") == "asus_wmi_sensors"
    assert clean("\ufffd") == ""
    name, _ = meaning("temp", "__", {})
    assert METRICS.find(name) is None, "an element without a letter has no metric"
