import shutil
from pathlib import Path

import pytest

from collectors.cpu_throttle import CpuThrottle
from collectors.interface.sample import SourceAbsentError

CPUS = "sys/devices/system/cpu"


def cpu(number: int, package: str, core: str, core_ms: int, package_ms: int) -> dict[str, str]:
    where = f"{CPUS}/cpu{number}"
    return {
        f"{where}/topology/physical_package_id": f"{package}\n",
        f"{where}/topology/core_id": f"{core}\n",
        f"{where}/thermal_throttle/core_throttle_count": "4\n",
        f"{where}/thermal_throttle/core_throttle_max_time_ms": "1\n",
        f"{where}/thermal_throttle/core_throttle_total_time_ms": f"{core_ms}\n",
        f"{where}/thermal_throttle/package_throttle_total_time_ms": f"{package_ms}\n",
    }


TWO_CORES = {
    f"{CPUS}/online": "0-3\n",
    f"{CPUS}/cpufreq/boost": "1\n",
    **cpu(0, "0", "0", 1500, 60000),
    **cpu(1, "0", "4", 250, 60010),
    **cpu(2, "0", "0", 1490, 59000),
    **cpu(3, "0", "4", 260, 60020),
}


def test_throttled_seconds_are_those_of_the_first_cpu_of_a_core_and_package(plant, values) -> None:
    assert values(CpuThrottle(plant(TWO_CORES)).collect()) == {
        'node_cpu_core_throttle_seconds_total{package="0",core="0"}': 1.5,
        'node_cpu_core_throttle_seconds_total{package="0",core="4"}': 0.25,
        'node_cpu_package_throttle_seconds_total{package="0"}': 60,
    }


def test_another_cpu_represents_a_core_when_the_first_goes_offline(
    tmp_path: Path, plant, values
) -> None:
    collector = CpuThrottle(plant(TWO_CORES))
    list(collector.collect())
    shutil.rmtree(tmp_path / CPUS / "cpu0/thermal_throttle")
    shutil.rmtree(tmp_path / CPUS / "cpu0/topology")
    plant({f"{CPUS}/online": "1-3\n"})
    found = values(collector.collect())
    assert found['node_cpu_core_throttle_seconds_total{package="0",core="0"}'] == 1.49
    assert found['node_cpu_package_throttle_seconds_total{package="0"}'] == 60.01


@pytest.mark.parametrize(
    "files",
    [
        {},
        {f"{CPUS}/online": "0\n", f"{CPUS}/cpu0/topology/core_id": "0\n"},
        {f"{CPUS}/cpu0/thermal_throttle/core_throttle_count": "0\n"},
        cpu(0, "-1", "0", 1, 1),
    ],
)
def test_machine_without_throttle_files_is_an_absent_source(plant, files) -> None:
    """AMD machines, virtual machines, kernels before 5.6, and kernels that do not know a CPU's package."""
    with pytest.raises(SourceAbsentError):
        list(CpuThrottle(plant(files)).collect())
