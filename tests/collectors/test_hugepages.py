import pytest

from collectors import hugepages
from collectors.hugepages import HugePages, page_size
from collectors.interface.sample import SourceAbsentError

PARSERS = {
    "hugepages": lambda text: [hugepages.page_size(text)],
}


POOLS = "sys/kernel/mm/hugepages"
NODES = "sys/devices/system/node"


def pool(where: str, **counts: int) -> dict[str, str]:
    return {f"{where}/{name}": f"{count}\n" for name, count in counts.items()}


def host_pool(size: str, total: int, free: int, reserved: int) -> dict[str, str]:
    return pool(
        f"{POOLS}/hugepages-{size}",
        nr_hugepages=total,
        nr_hugepages_mempolicy=total,
        nr_overcommit_hugepages=16,
        free_hugepages=free,
        resv_hugepages=reserved,
        surplus_hugepages=1,
    )


def node_pool(node: int, size: str, total: int, free: int) -> dict[str, str]:
    where = f"{NODES}/node{node}/hugepages/hugepages-{size}"
    return pool(where, nr_hugepages=total, free_hugepages=free, surplus_hugepages=node)


def test_pages_are_by_size_and_node(plant, values) -> None:
    machine = plant(
        {
            **host_pool("2048kB", 1024, 700, 12),
            **host_pool("1048576kB", 4, 4, 0),
            **node_pool(0, "2048kB", 512, 300),
            **node_pool(0, "1048576kB", 4, 4),
            **node_pool(1, "2048kB", 512, 400),
            **node_pool(1, "1048576kB", 0, 0),
        }
    )
    found = values(HugePages(machine).collect())
    assert {s: v for s, v in found.items() if "_free_" in s} == {
        'node_hugepages_free_pages{node="0",page_size="2Mi"}': 300,
        'node_hugepages_free_pages{node="0",page_size="1Gi"}': 4,
        'node_hugepages_free_pages{node="1",page_size="2Mi"}': 400,
        'node_hugepages_free_pages{node="1",page_size="1Gi"}': 0,
    }
    assert found['node_hugepages_pages{node="1",page_size="2Mi"}'] == 512
    assert found['node_hugepages_surplus_pages{node="1",page_size="2Mi"}'] == 1
    assert found['node_hugepages_reserved_pages{page_size="2Mi"}'] == 12
    assert found['node_hugepages_overcommit_pages{page_size="1Gi"}'] == 16


def test_kernel_without_numa_has_its_pools_on_node_0(plant, values) -> None:
    found = values(HugePages(plant(host_pool("2048kB", 8, 5, 0))).collect())
    assert found['node_hugepages_pages{node="0",page_size="2Mi"}'] == 8
    assert found['node_hugepages_free_pages{node="0",page_size="2Mi"}'] == 5


@pytest.mark.parametrize("files", [{}, {f"{POOLS}/README": ""}])
def test_kernel_without_huge_pages_is_an_absent_source(plant, files) -> None:
    with pytest.raises(SourceAbsentError):
        list(HugePages(plant(files)).collect())


def test_unreadable_file_is_not_zero(plant, values) -> None:
    machine = plant(
        {**host_pool("2048kB", 8, 5, 0), f"{POOLS}/hugepages-2048kB/resv_hugepages": ""}
    )
    assert not any("reserved" in series for series in values(HugePages(machine).collect()))


@pytest.mark.parametrize(
    ("directory", "size"),
    [
        ("hugepages-64kB", "64Ki"),
        ("hugepages-2048kB", "2Mi"),
        ("hugepages-32768kB", "32Mi"),
        ("hugepages-524288kB", "512Mi"),
        ("hugepages-1048576kB", "1Gi"),
        ("hugepages-16777216kB", "16Gi"),
        ("hugepages-1536kB", "1536Ki"),
        ("hugepages-2048", None),
        ("hugepages--1kB", None),
        ("kB", None),
        ("hugepages-kB", None),
    ],
)
def test_sizes_are_formatted_as_by_kubernetes(directory: str, size: str | None) -> None:
    assert page_size(directory) == size
