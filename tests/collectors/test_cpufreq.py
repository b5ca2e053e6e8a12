from pathlib import Path

import pytest

from collectors.cpufreq import CpuFreq
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError

CPUS = "sys/devices/system/cpu"


@pytest.fixture
def xeon(machine, values) -> dict[str, float]:
    found: dict[str, float] = values(CpuFreq(machine("xeon")).collect())
    return found


def test_frequencies_are_in_hertz(xeon) -> None:
    assert xeon['node_cpu_scaling_frequency_hertz{cpu="1"}'] == 2.001e9
    assert xeon['node_cpu_scaling_frequency_min_hertz{cpu="0"}'] == 8e8
    assert xeon['node_cpu_frequency_max_hertz{cpu="3"}'] == 3.4e9
    assert 'node_cpu_frequency_hertz{cpu="0"}' not in xeon, "known to other CPUs' drivers only"


def test_online_cpus_of_a_policy_have_its_frequency(xeon) -> None:
    assert xeon['node_cpu_scaling_frequency_hertz{cpu="2"}'] == 2.002e9
    assert xeon['node_cpu_scaling_frequency_hertz{cpu="3"}'] == 2.002e9
    assert not any('cpu="4"' in series for series in xeon)


def test_every_governor_and_the_active_one_are_exported(xeon) -> None:
    assert {s: v for s, v in xeon.items() if 'governor{cpu="0"' in s} == {
        'node_cpu_scaling_governor{cpu="0",governor="performance"}': 0,
        'node_cpu_scaling_governor{cpu="0",governor="powersave"}': 1,
    }


def test_hardware_frequency_is_exported_and_unreadable_files_are_skipped(
    plant, values, failing_reads, tmp_path: Path
) -> None:
    host = plant(
        {
            f"{CPUS}/cpu0/cpufreq/cpuinfo_cur_freq": "2400000\n",
            f"{CPUS}/cpu0/cpufreq/cpuinfo_avg_freq": "2300000\n",
            f"{CPUS}/cpu0/cpufreq/scaling_cur_freq": "<unknown>\n",
        }
    )
    for file in ("scaling_max_freq", "scaling_governor", "cpuinfo_max_freq"):
        failing_reads(tmp_path / CPUS / "cpu0/cpufreq" / file)
    assert values(CpuFreq(host).collect()) == {
        'node_cpu_frequency_hertz{cpu="0"}': 2.4e9,
        'node_cpu_frequency_avg_hertz{cpu="0"}': 2.3e9,
    }


def test_changing_values_are_read_each_time_and_a_new_driver_is_found(plant, values) -> None:
    host = plant({f"{CPUS}/cpu0/online": "1\n", f"{CPUS}/cpu1/online": "1\n"})
    collector = CpuFreq(host)
    assert values(collector.collect()) == {}
    plant({f"{CPUS}/cpufreq/policy0/scaling_cur_freq": "1000\n"})
    for cpu in ("cpu0", "cpu1"):
        (host.sysfs / "devices/system/cpu" / cpu / "cpufreq").symlink_to("../cpufreq/policy0")
    assert set(values(collector.collect()).values()) == {1e6}
    plant({f"{CPUS}/cpufreq/policy0/scaling_cur_freq": "2000\n"})
    assert set(values(collector.collect()).values()) == {2e6}


def test_invalid_list_of_offline_cpus_is_rejected(plant) -> None:
    host = plant({f"{CPUS}/cpu0/cpufreq/scaling_cur_freq": "1\n", f"{CPUS}/offline": "1-\n"})
    with pytest.raises(CollectorError, match="CPU list"):
        list(CpuFreq(host).collect())


def test_sysfs_without_cpus_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(CpuFreq(Host(sysfs=tmp_path)).collect())
