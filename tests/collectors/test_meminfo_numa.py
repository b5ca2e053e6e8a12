from pathlib import Path

import pytest

from collectors import meminfo_numa
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.meminfo_numa import MemInfoNuma, parse_meminfo, parse_numastat

PARSERS = {
    "meminfo_numa": lambda text: meminfo_numa.families([("0", meminfo_numa.parse_meminfo(text))]),
    "numastat": lambda text: meminfo_numa.families([("0", meminfo_numa.parse_numastat(text))]),
}

SAMPLES = {
    "numa": (
        "Node 0 MemTotal:       263950116 kB\nNode 0 Active(anon):  881200 kB\nNode 0 HugePages_Total:   512\n",
        lambda t: meminfo_numa.families([("0", meminfo_numa.parse_meminfo(t))]),
    ),
}


MEMINFO = """\

Node 1 MemTotal:       263950116 kB
Node 1 MemFree:        120033120 kB
Node 1 Active(anon):      881200 kB
Node 1 HugePages_Total:    512
Node 1 HugePages_Free:     500
"""
NUMASTAT = """\
numa_hit 880120033
numa_miss 12
numa_foreign 120
interleave_hit 91203
local_node 880120000
other_node 33
"""


@pytest.fixture
def two_nodes(tmp_path: Path) -> Host:
    for node in ("0", "1"):
        directory = tmp_path / f"devices/system/node/node{node}"
        directory.mkdir(parents=True)
        (directory / "meminfo").write_text(MEMINFO.replace("Node 1", f"Node {node}"))
        (directory / "numastat").write_text(NUMASTAT)
    (tmp_path / "devices/system/node/online").write_text("0-1\n")
    return Host(sysfs=tmp_path)


def test_memory_is_in_bytes_and_pages_have_no_suffix(two_nodes: Host, values) -> None:
    found = values(MemInfoNuma(two_nodes).collect())
    assert {s: v for s, v in found.items() if 'node="1"' in s} == {
        'node_memory_numa_MemTotal{node="1"}': 263950116 * 1024,
        'node_memory_numa_MemFree{node="1"}': 120033120 * 1024,
        'node_memory_numa_Active_anon{node="1"}': 881200 * 1024,
        'node_memory_numa_HugePages_Total{node="1"}': 512,
        'node_memory_numa_HugePages_Free{node="1"}': 500,
        'node_memory_numa_numa_hit_total{node="1"}': 880120033,
        'node_memory_numa_numa_miss_total{node="1"}': 12,
        'node_memory_numa_numa_foreign_total{node="1"}': 120,
        'node_memory_numa_interleave_hit_total{node="1"}': 91203,
        'node_memory_numa_local_node_total{node="1"}': 880120000,
        'node_memory_numa_other_node_total{node="1"}': 33,
    }
    assert len(found) == 2 * 11


def test_monotonic_field_is_a_counter(two_nodes: Host) -> None:
    kinds = {family.name: family.type for family in MemInfoNuma(two_nodes).collect()}
    assert kinds["node_memory_numa_numa_hit_total"] == "counter"
    assert kinds["node_memory_numa_HugePages_Total"] == "gauge"


def test_kernel_without_numa_is_an_absent_source(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(SourceAbsentError):
            list(MemInfoNuma(Host(sysfs=tmp_path)).collect())
        (tmp_path / "devices/system/node").mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize(
    "text",
    [
        "MemTotal: 1 kB\n",
        "Node 0 MemTotal: 1 MB\n",
        "Node 0 MemTotal: x kB\n",
        "Node 0 Mem-Total: 1 kB\n",
        "Node 0 MemTotal: " + "9" * 30,
        "Node 0",
    ],
)
def test_invalid_meminfo_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError):
        list(parse_meminfo(text))


@pytest.mark.parametrize("text", ["numa_hit\n", "numa_hit x\n", "numa-hit 1\n", "numa_hit 1 2\n"])
def test_invalid_numastat_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="numastat"):
        list(parse_numastat(text))
