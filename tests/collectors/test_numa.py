from pathlib import Path

import pytest

from collectors import numa
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.numa import Numa, parse_distances, parse_meminfo

PARSERS = {
    "numa distances": lambda text: numa.parse_distances(text, 2),
    "numa meminfo": numa.parse_meminfo,
}


NODES = "sys/devices/system/node"
MEMINFO = """\
Node {node} MemTotal:       {total} kB
Node {node} MemFree:        {free} kB
Node {node} MemUsed:        40124520 kB
Node {node} SwapCached:            0 kB
Node {node} Active:         15211672 kB
Node {node} HugePages_Total:     0
"""


def node(number: int, distances: str, total: int = 131072, free: int = 1024) -> dict[str, str]:
    return {
        f"{NODES}/node{number}/distance": f"{distances}\n",
        f"{NODES}/node{number}/meminfo": MEMINFO.format(node=number, total=total, free=free),
    }


def test_distances_and_memory_are_exported(plant, values) -> None:
    machine = plant({**node(0, "10 21", free=512), **node(1, "21 10"), f"{NODES}/online": "0-1\n"})
    assert values(Numa(machine).collect()) == {
        'node_numa_distance{node="0",target="0"}': 10,
        'node_numa_distance{node="0",target="1"}': 21,
        'node_numa_distance{node="1",target="0"}': 21,
        'node_numa_distance{node="1",target="1"}': 10,
        'node_numa_memory_free_bytes{node="0"}': 512 * 1024,
        'node_numa_memory_free_bytes{node="1"}': 1024 * 1024,
        'node_numa_memory_size_bytes{node="0"}': 131072 * 1024,
        'node_numa_memory_size_bytes{node="1"}': 131072 * 1024,
    }


def test_columns_are_the_online_nodes(plant, values) -> None:
    """Node numbers may have gaps and two digits; CXL memory is a distant node without CPUs."""
    machine = plant({**node(0, "10 12 24"), **node(2, "12 10 24"), **node(10, "24 24 10")})
    found = values(Numa(machine).collect())
    assert found['node_numa_distance{node="0",target="2"}'] == 12
    assert found['node_numa_distance{node="2",target="10"}'] == 24


def test_node_that_comes_online_changes_the_distances(plant, values) -> None:
    machine = plant(node(0, "10"))
    collector = Numa(machine)
    assert len([s for s in values(collector.collect()) if "distance" in s]) == 1
    plant({**node(0, "10 14"), **node(1, "14 10")})
    assert values(collector.collect())['node_numa_distance{node="0",target="1"}'] == 14


def test_node_without_memory_has_no_memory_samples(plant, values) -> None:
    found = values(Numa(plant(node(1, "10", total=0, free=0))).collect())
    assert found['node_numa_memory_size_bytes{node="1"}'] == 0


def test_kernel_without_numa_is_an_absent_source(tmp_path: Path, plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Numa(plant({})).collect())
    (tmp_path / NODES).mkdir(parents=True)
    with pytest.raises(SourceAbsentError):
        list(Numa(plant({})).collect())


def test_node_without_files_exports_nothing(plant, values) -> None:
    assert values(Numa(plant({f"{NODES}/node0/cpulist": "0-3\n"})).collect()) == {}


@pytest.mark.parametrize("text", ["", "10", "10 2x", "10 -1", "10 20 30"])
def test_distances_that_do_not_match_the_nodes_are_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="distance"):
        parse_distances(text, 2)


def test_partial_meminfo_is_exported() -> None:
    assert parse_meminfo("") == {}
    assert parse_meminfo("Node 0 MemFree:  3 kB\nNode 0 Mem") == {"MemFree:": 3072}
    assert parse_meminfo("Node 0 MemFree:  -3 kB\n") == {}
