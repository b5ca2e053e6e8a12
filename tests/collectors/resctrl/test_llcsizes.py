import pytest

from collectors.resctrl.llcsizes import LlcSizes, parse_size

CPUS = "sys/devices/system/cpu"


def cache(cpu: int, index: int, level: int, cache_id: int | None, size: str) -> dict[str, str]:
    where = f"{CPUS}/cpu{cpu}/cache/index{index}"
    files = {f"{where}/level": f"{level}\n", f"{where}/size": f"{size}\n"}
    return files if cache_id is None else {**files, f"{where}/id": f"{cache_id}\n"}


def test_each_l3_cache_has_one_size(plant) -> None:
    machine = plant(
        {
            f"{CPUS}/online": "0-2\n",
            f"{CPUS}/cpufreq/boost": "1\n",
            **cache(0, 2, 2, 0, "2048K"),
            **cache(0, 3, 3, 0, "61440K"),
            **cache(1, 3, 3, 0, "61440K"),
            **cache(2, 3, 3, 8, "32768K"),
        }
    )
    sizes = LlcSizes(machine.sysfs)
    assert sizes.get() == {"0": 61440 * 1024, "8": 32768 * 1024}
    plant({**cache(3, 3, 3, 9, "32768K"), f"{CPUS}/online": "0-3\n"})
    assert set(sizes.get()) == {"0", "8", "9"}


@pytest.mark.parametrize("files", [{}, cache(0, 3, 3, None, "16384K"), cache(0, 3, 3, 0, "?")])
def test_machine_without_cache_files_has_no_sizes(plant, files) -> None:
    assert LlcSizes(plant(files).sysfs).get() == {}


@pytest.mark.parametrize(
    ("text", "size"), [("61440K\n", 62914560), ("0K", 0), ("64", None), ("-1K", None), ("", None)]
)
def test_sizes_are_parsed(text: str, size: int | None) -> None:
    assert parse_size(text) == size
