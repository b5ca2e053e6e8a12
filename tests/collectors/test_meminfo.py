import pytest

from collectors import meminfo
from collectors.interface.sample import CollectorError
from collectors.meminfo import MemInfo, parse

PARSERS = {
    "meminfo": meminfo.parse,
}


def test_fields_of_a_real_machine_are_exported(machine, values) -> None:
    found = values(MemInfo(machine("xeon")).collect())
    assert found["node_memory_MemAvailable_bytes"] == 40116204 * 1024
    assert found["node_memory_Active_anon_bytes"] == 12001044 * 1024
    assert found["node_memory_VmallocTotal_bytes"] == 34359738367 * 1024
    assert len(found) == 54


def test_huge_pages_are_counted_not_in_bytes(machine, values) -> None:
    found = values(MemInfo(machine("xeon")).collect())
    assert found["node_memory_HugePages_Total"] == 512
    assert "node_memory_HugePages_Total_bytes" not in found


def test_field_missing_in_an_old_kernel_is_absent(machine, values) -> None:
    found = values(MemInfo(machine("vm2012")).collect())
    assert "node_memory_MemFree_bytes" in found
    assert "node_memory_MemAvailable_bytes" not in found


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "MemTotal:",
        "MemTotal: kB\n",
        "MemTotal: 12 MB\n",
        "MemTotal: -1 kB\n",
        "MemTotal: 1_0 kB\n",
        "MemTotal 12 kB\n",
        "Mem Total: 12 kB\n",
        "Bücher: 1 kB\n",
    ],
)
def test_invalid_meminfo_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="meminfo"):
        list(parse(text))
