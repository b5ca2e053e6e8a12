import time
from pathlib import Path

from collectors.interface.host import Host
from collectors.time import Time


def clock(machine: Host, zone: str = "CEST", offset: int = 7200) -> Time:
    moment = time.struct_time(
        (2026, 7, 1, 14, 0, 0, 2, 182, 1), {"tm_zone": zone, "tm_gmtoff": offset}
    )
    return Time(machine, now_ns=lambda: 1_782_907_200_250_000_000, local=lambda _: moment)


def test_time_zone_and_clock_sources_are_exported(machine, values) -> None:
    assert values(clock(machine("xeon")).collect()) == {
        "node_time_seconds": 1782907200.25,
        'node_time_zone_offset_seconds{time_zone="CEST"}': 7200,
        'node_time_clocksource_available_info{device="0",clocksource="tsc"}': 1,
        'node_time_clocksource_available_info{device="0",clocksource="hpet"}': 1,
        'node_time_clocksource_available_info{device="0",clocksource="acpi_pm"}': 1,
        'node_time_clocksource_current_info{device="0",clocksource="tsc"}': 1,
    }


def test_offset_west_of_greenwich_is_negative(tmp_path: Path, values) -> None:
    found = values(clock(Host(sysfs=tmp_path), "EST", -18000).collect())
    assert found['node_time_zone_offset_seconds{time_zone="EST"}'] == -18000


def test_time_is_exported_without_clock_sources(tmp_path: Path, values) -> None:
    found = values(clock(Host(sysfs=tmp_path)).collect())
    assert len(found) == 2


def test_clock_source_without_a_name_is_left_out(tmp_path: Path, values) -> None:
    directory = tmp_path / "devices/system/clocksource/clocksource0"
    directory.mkdir(parents=True)
    (directory / "available_clocksource").write_text("tsc\n")
    found = values(clock(Host(sysfs=tmp_path)).collect())
    assert "node_time_seconds" in found
    assert not any("clocksource" in series for series in found)


def test_clock_of_this_machine_is_read(tmp_path: Path, values) -> None:
    before = time.time()
    found = values(Time(Host(sysfs=tmp_path)).collect())
    assert before <= found["node_time_seconds"] <= time.time()
