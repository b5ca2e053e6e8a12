import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.xfs import Xfs, parse

TEXT = """\
extent_alloc 1 872 3 4
blk_map 61 29 1 2 3 91 5
rw 28 17
vnodes 4 0 0 0 1 2 3 0
trans 4 40 0
xpc 3571712 3568056 0
"""


def test_operations_of_each_file_system_are_exported(plant, values) -> None:
    host = plant(
        {
            "sys/fs/xfs/sda1/stats/stats": TEXT,
            "sys/fs/xfs/sdb1/stats/stats": "rw 5 6\n",
            "sys/fs/xfs/stats/stats": TEXT,  # the sum
        }
    )
    found = values(Xfs(host).collect())
    expected = {
        'node_xfs_extent_allocation_blocks_allocated_total{device="sda1"}': 872,
        'node_xfs_block_mapping_extent_list_lookups_total{device="sda1"}': 91,
        'node_xfs_write_calls_total{device="sda1"}': 28,
        'node_xfs_read_calls_total{device="sda1"}': 17,
        'node_xfs_read_calls_total{device="sdb1"}': 6,
        'node_xfs_vnode_remove_total{device="sda1"}': 3,
    }
    assert {series: found[series] for series in expected} == expected
    assert not any('device="stats"' in series for series in found)


def test_line_that_the_kernel_does_not_write_is_absent() -> None:
    assert dict(parse("rw 1\n")) == {"node_xfs_write_calls_total": 1}


def test_damaged_number_is_left_out() -> None:
    assert dict(parse("rw 1 x\n")) == {"node_xfs_write_calls_total": 1}


def test_machine_without_xfs_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Xfs(plant({})).collect())
