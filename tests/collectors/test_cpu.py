from pathlib import Path

import pytest

from collectors import cpu
from collectors.cpu import Cpu, Options, advance, cpuinfo, parse_stat
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.shared.formats import cpulist
from collectors.shared.formats.cpulist import parse_cpu_list

PARSERS = {
    "cpu": cpu.parse_stat,
    "cpu list": cpulist.parse_cpu_list,
    "cpu seconds": lambda text: list(cpu.seconds(cpu.parse_stat(text), guest=True)),
    "cpuinfo": lambda text: [cpuinfo.info(cpuinfo.blocks(text))],
    "cpuinfo frequency": lambda text: list(cpuinfo.frequency(cpuinfo.blocks(text))),
}


@pytest.fixture
def xeon(machine, values) -> dict[str, float]:
    found: dict[str, float] = values(Cpu(machine("xeon"), Options()).collect())
    return found


def test_seconds_are_by_mode(xeon) -> None:
    assert xeon['node_cpu_seconds_total{cpu="0",mode="user"}'] == 10053.3
    assert xeon['node_cpu_seconds_total{cpu="3",mode="idle"}'] == 245300.83
    assert xeon['node_cpu_seconds_total{cpu="1",mode="steal"}'] == 4.51
    assert not any('cpu=""' in series for series in xeon), "the line of all CPUs together"


def test_guest_modes_can_be_disabled(machine, values, xeon) -> None:
    assert xeon['node_cpu_guest_seconds_total{cpu="0",mode="nice"}'] == 0.03
    without = values(Cpu(machine("xeon"), Options(cpu_guest=False)).collect())
    assert not any("guest" in series for series in without)


def test_mode_missing_in_an_old_kernel_is_absent(machine, values) -> None:
    found = values(Cpu(machine("vm2012"), Options()).collect())
    assert 'node_cpu_seconds_total{cpu="0",mode="softirq"}' in found
    assert 'node_cpu_seconds_total{cpu="0",mode="steal"}' not in found
    assert not any("guest" in series for series in found)


def test_throttles_are_those_of_the_first_cpu_of_a_core_and_package(xeon) -> None:
    throttles = {series: value for series, value in xeon.items() if "throttles" in series}
    assert throttles == {
        'node_cpu_core_throttles_total{package="0",core="0"}': 100,
        'node_cpu_core_throttles_total{package="1",core="0"}': 102,
        'node_cpu_package_throttles_total{package="0"}': 200,
        'node_cpu_package_throttles_total{package="1"}': 202,
    }


def test_online_and_isolated_cpus_are_exported(xeon) -> None:
    assert {s: v for s, v in xeon.items() if "online" in s} == {
        'node_cpu_online{cpu="0"}': 1,
        'node_cpu_online{cpu="1"}': 1,
        'node_cpu_online{cpu="2"}': 1,
        'node_cpu_online{cpu="3"}': 1,
        'node_cpu_online{cpu="4"}': 0,
    }
    assert {s for s in xeon if "isolated" in s} == {
        'node_cpu_isolated{cpu="2"}',
        'node_cpu_isolated{cpu="3"}',
    }


CPUS = "sys/devices/system/cpu"


def test_online_cpus_are_found_without_a_list(plant, values) -> None:
    host = plant(
        {"proc/stat": "cpu0 1 2 3 4\n", f"{CPUS}/cpu0/online": "1\n", f"{CPUS}/cpu1/online": "0\n"}
    )
    found = values(Cpu(host, Options()).collect())
    assert {s: v for s, v in found.items() if "online" in s} == {
        'node_cpu_online{cpu="0"}': 1,
        'node_cpu_online{cpu="1"}': 0,
    }


def test_online_is_absent_if_the_first_cpu_has_no_state(plant, values) -> None:
    host = plant(
        {"proc/stat": "cpu0 1 2 3 4\n", f"{CPUS}/cpu1/online": "1\n", f"{CPUS}/online": "0-1\n"}
    )
    assert not any("online" in series for series in values(Cpu(host, Options()).collect()))


def test_another_cpu_represents_a_core_when_the_first_goes_offline(
    plant, values, failing_reads
) -> None:
    files = {"proc/stat": "cpu0 1 2 3 4\n", f"{CPUS}/online": "0-1\n"}
    for directory, count in (("cpu0", 5), ("cpu1", 6)):
        files |= {
            f"{CPUS}/{directory}/topology/core_id": "0\n",
            f"{CPUS}/{directory}/topology/physical_package_id": "0\n",
            f"{CPUS}/{directory}/thermal_throttle/core_throttle_count": f"{count}\n",
        }
    host = plant(files)
    collector = Cpu(host, Options())
    core = 'node_cpu_core_throttles_total{package="0",core="0"}'
    assert values(collector.collect())[core] == 5
    plant({f"{CPUS}/cpu0/thermal_throttle/core_throttle_count": "8\n"})
    assert values(collector.collect())[core] == 8
    (host.sysfs / "devices/system/cpu/cpu0/topology/core_id").unlink()
    plant({f"{CPUS}/online": "1\n"})
    assert values(collector.collect())[core] == 6
    failing_reads(host.sysfs / "devices/system/cpu/cpu1/thermal_throttle/core_throttle_count")
    assert core not in values(collector.collect())


def test_virtual_machine_without_topology_has_no_throttles(plant, values) -> None:
    topology = {"core_id": "0\n", "physical_package_id": "-1\n"}
    host = plant({f"{CPUS}/cpu0/topology/{file}": text for file, text in topology.items()})
    plant(
        {"proc/stat": "cpu0 1 2 3 4\n", f"{CPUS}/cpu0/thermal_throttle/core_throttle_count": "1\n"}
    )
    assert not any("throttles" in series for series in values(Cpu(host, Options()).collect()))


def test_info_is_off_by_default_and_complete_with_a_flag(machine, values, xeon) -> None:
    assert not any("info" in series for series in xeon)
    options = Options(cpu_info=True, cpu_flags_include="^(cqm|rdt)", cpu_bugs_include="v2$")
    found = values(Cpu(machine("xeon"), options).collect())
    assert {s for s in found if "node_cpu_info" in s and 'cpu="3"' in s} == {
        'node_cpu_info{package="1",core="0",cpu="3",vendor="GenuineIntel",family="6",model="143",'
        'model_name="Intel(R) Xeon(R) Gold 6430",microcode="0x2b000603",stepping="8",cachesize="61440 KB"}'
    }
    assert found['node_cpu_frequency_hertz{package="0",core="0",cpu="1"}'] == 2.1e9
    assert {s for s in found if "flag" in s or "bug" in s} == {
        'node_cpu_flag_info{flag="cqm_llc"}',
        'node_cpu_flag_info{flag="cqm_mbm_total"}',
        'node_cpu_flag_info{flag="rdt_a"}',
        'node_cpu_bug_info{bug="spectre_v2"}',
    }


def test_pattern_alone_enables_info() -> None:
    assert Options(cpu_flags_include="x").wants_info
    assert not Options().wants_info


def test_missing_stat_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Cpu(Host(procfs=tmp_path, sysfs=tmp_path), Options()).collect())


def test_times_never_decrease() -> None:
    before = {0: (100, 0, 50, 9000, 70)}
    after = advance(before, {0: (101, 0, 50, 8990, 60)})
    assert after == {0: (101, 0, 50, 9000, 70)}


def test_cpu_that_returns_starts_anew() -> None:
    before = {0: (100, 0, 50, 9000, 70), 1: (1, 1, 1, 1, 1)}
    after = advance(before, {0: (1, 0, 2, 30, 0)})
    assert after == {0: (1, 0, 2, 30, 0)}, "and the removed one is forgotten"


def test_times_never_decrease_between_scrapes(tmp_path: Path, values) -> None:
    stat = tmp_path / "stat"
    collector = Cpu(Host(procfs=tmp_path, sysfs=tmp_path), Options())
    stat.write_text("cpu0 1 0 0 5000 70\n")
    list(collector.collect())
    stat.write_text("cpu0 2 0 0 4999 70\n")
    found = values(collector.collect())
    assert found['node_cpu_seconds_total{cpu="0",mode="idle"}'] == 50
    assert found['node_cpu_seconds_total{cpu="0",mode="user"}'] == 0.02


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cpu  1 2 3 4\n",
        "cpu0 1 2 3\n",
        "cpu0\n",
        "cpu0 1 2 3 -4\n",
        "cpu0 1 2 3 4.5\n",
        "intr 12\n",
    ],
)
def test_invalid_stat_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="stat"):
        parse_stat(text)


@pytest.mark.parametrize(
    ("text", "cpus"), [("\n", []), ("3\n", [3]), ("1,3-5,9\n", [1, 3, 4, 5, 9])]
)
def test_cpu_list_is_parsed(text: str, cpus: list[int]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "5-3", "1-2-3", "0-99999999999"])
def test_invalid_cpu_list_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="CPU list"):
        parse_cpu_list(text)
