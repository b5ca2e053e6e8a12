import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.zfs import Zfs, parse_io, parse_named

ZFS = "proc/spl/kstat/zfs"
HEAD = "6 1 0x01 91 4368 5266997922 97951858082072\nname                            type data\n"
FILES = {
    f"{ZFS}/arcstats": f"{HEAD}hits    4    8772612\nmemory_available_bytes 3 -1048576\nname_of 7 text\n",
    f"{ZFS}/fm": f"{HEAD}erpt-dropped   4    18\n",
    f"{ZFS}/tank/io": "12 3 0x00 1 80 79 39\nnread nwritten reads writes\n1884160 3206144 22 132\n",
    f"{ZFS}/tank/state": "DEGRADED\n",
    f"{ZFS}/tank/objset-0x24": f"{HEAD}dataset_name 7 tank/a b\nnread 4 12302\n",
}


def test_caches_pools_and_datasets_are_exported(plant, values) -> None:
    found = values(Zfs(plant(FILES)).collect())
    assert {series: value for series, value in found.items() if "state=" not in series} == {
        "node_zfs_arc_hits": 8772612,
        "node_zfs_arc_memory_available_bytes": -1048576,
        "node_zfs_fm_erpt_dropped": 18,
        'node_zfs_zpool_nread{zpool="tank"}': 1884160,
        'node_zfs_zpool_nwritten{zpool="tank"}': 3206144,
        'node_zfs_zpool_reads{zpool="tank"}': 22,
        'node_zfs_zpool_writes{zpool="tank"}': 132,
        'node_zfs_zpool_dataset_nread{zpool="tank",dataset="tank/a b"}': 12302,
    }
    states = {series: value for series, value in found.items() if "state=" in series}
    assert len(states) == 7
    assert [series for series, value in states.items() if value] == [
        'node_zfs_zpool_state{zpool="tank",state="degraded"}'
    ]


def test_help_names_the_kernel_statistic(plant) -> None:
    found = {family.name: family for family in Zfs(plant(FILES)).collect()}
    assert found["node_zfs_arc_hits"].help == "kstat.zfs.misc.arcstats.hits"
    assert found["node_zfs_arc_hits"].type == "untyped"
    assert found["node_zfs_zpool_nread"].help == "kstat.zfs.misc.io.nread"


def test_pool_that_is_being_exported_is_absent(plant, values) -> None:
    host = plant({f"{ZFS}/tank/other": ""})
    assert values(Zfs(host).collect()) == {}


def test_damaged_files_are_errors(plant, values) -> None:
    with pytest.raises(CollectorError, match="no line"):
        list(parse_named("zil", "nothing\n"))
    with pytest.raises(CollectorError, match="nread"):
        list(parse_io("nread\nx\n"))
    odd = plant({f"{ZFS}/arcstats": f"{HEAD}hits 4 x\nmisses 4 3\n"})
    assert values(Zfs(odd).collect()) == {"node_zfs_arc_misses": 3}


def test_machine_without_zfs_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Zfs(plant({})).collect())
