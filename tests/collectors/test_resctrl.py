import shutil
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.resctrl import LlcSizes, Options, Resctrl, formats, parse_size, resctrltree
from collectors.resctrl.resctrltree import parse_schemata

PARSERS = {
    "sizes of caches": lambda text: [parse_size(text)],
    "resctrl reading": lambda text: [formats.parse_reading(text)],
    "resctrl schemata": resctrltree.parse_schemata,
}


ROOT = "sys/fs/resctrl"
CPUS = "sys/devices/system/cpu"
POD = "b933ae96-6ca5-4382-bdae-c3edad27d2a4"
CONTAINER = "efccca1f375f17aa0863195e8b5c9e3c6b85070c298e6323bf0e5c4f8a61c30e"
INFO = {
    f"{ROOT}/info/last_cmd_status": "ok\n",
    f"{ROOT}/info/L3/cbm_mask": "7fff\n",
    f"{ROOT}/info/L3_MON/num_rmids": "288\n",
    f"{ROOT}/info/L3_MON/mon_features": "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n",
}


def counters(group: str, domain: str, used: int | str, total: int | str, local: int | str) -> dict:
    where = f"{ROOT}/{group}mon_data/mon_L3_{domain}"
    return {
        f"{where}/llc_occupancy": f"{used}\n",
        f"{where}/mbm_total_bytes": f"{total}\n",
        f"{where}/mbm_local_bytes": f"{local}\n",
    }


def xeon(default: int, latency: int, pod: int) -> dict[str, str]:
    """Two sockets; a control group with a pod's monitor group, and a container's in the default group."""
    return {
        **INFO,
        f"{ROOT}/schemata": "    MB:0=100;1=100\n    L3:0=7fff;1=7fff\n",
        **counters("", "00", 81920, default, default // 2),
        **counters("", "01", 4096, 10, 5),
        **counters(f"mon_groups/{CONTAINER}/", "00", 2048, 100, 50),
        **counters(f"mon_groups/{CONTAINER}/", "01", 0, 0, 0),
        f"{ROOT}/latency/schemata": "    MB:0= 20;1=100\n    L3:0=000f;1=7fff\n",
        **counters("latency/", "00", 1024, latency, 0),
        **counters("latency/", "01", 0, 0, 0),
        **counters(f"latency/mon_groups/pod-{POD}/", "00", 512, pod, 0),
        **counters(f"latency/mon_groups/pod-{POD}/", "01", 0, 0, 0),
    }


def of(found: dict[str, float], name: str) -> dict[str, float]:
    prefix = f"node_resctrl_{name}"
    return {series.removeprefix(prefix): v for series, v in found.items() if prefix in series}


def test_machine_with_two_sockets_is_exported(plant, values) -> None:
    machine = plant(
        {
            **xeon(5000, 900, 800),
            f"{CPUS}/cpu0/cache/index3/level": "3\n",
            f"{CPUS}/cpu0/cache/index3/id": "0\n",
            f"{CPUS}/cpu0/cache/index3/size": "61440K\n",
        }
    )
    collector = Resctrl(machine, Options())
    list(collector.collect())
    plant(xeon(5100, 950, 830))
    assert values(collector.collect()) == {
        'node_resctrl_llc_occupancy_bytes{domain="0"}': 81920 + 1024,
        'node_resctrl_llc_occupancy_bytes{domain="1"}': 4096,
        'node_resctrl_memory_bandwidth_bytes_total{domain="0",scope="local"}': 50,
        'node_resctrl_memory_bandwidth_bytes_total{domain="0",scope="total"}': 150,
        'node_resctrl_memory_bandwidth_bytes_total{domain="1",scope="local"}': 0,
        'node_resctrl_memory_bandwidth_bytes_total{domain="1",scope="total"}': 0,
        'node_resctrl_llc_size_bytes{domain="0"}': 62914560,
        'node_resctrl_schemata{control_group="/",resource="MB",domain="0"}': 100,
        'node_resctrl_schemata{control_group="/",resource="MB",domain="1"}': 100,
        'node_resctrl_schemata{control_group="/",resource="L3",domain="0"}': 0x7FFF,
        'node_resctrl_schemata{control_group="/",resource="L3",domain="1"}': 0x7FFF,
        'node_resctrl_schemata{control_group="latency",resource="MB",domain="0"}': 20,
        'node_resctrl_schemata{control_group="latency",resource="MB",domain="1"}': 100,
        'node_resctrl_schemata{control_group="latency",resource="L3",domain="0"}': 0x000F,
        'node_resctrl_schemata{control_group="latency",resource="L3",domain="1"}': 0x7FFF,
        "node_resctrl_rmids": 288,
        'node_resctrl_unavailable_reads_total{reason="unavailable"}': 0,
        'node_resctrl_unavailable_reads_total{reason="error"}': 0,
        'node_resctrl_unavailable_reads_total{reason="unassigned"}': 0,
    }


def test_ended_pod_does_not_reduce_a_sum(tmp_path: Path, plant, values) -> None:
    collector = Resctrl(plant(xeon(5000, 900, 800)), Options())
    list(collector.collect())
    shutil.rmtree(tmp_path / ROOT / f"latency/mon_groups/pod-{POD}")
    plant(counters("latency/", "00", 512, 105, 0))
    found = of(values(collector.collect()), "memory_bandwidth_bytes_total")
    assert found['{domain="0",scope="total"}'] == 5
    shutil.rmtree(tmp_path / ROOT / "latency")
    found = of(values(collector.collect()), "memory_bandwidth_bytes_total")
    assert found['{domain="0",scope="total"}'] == 5


def test_moved_monitor_group_keeps_its_counters(tmp_path: Path, plant, values) -> None:
    collector = Resctrl(plant(xeon(5000, 900, 800)), Options())
    list(collector.collect())
    mine = tmp_path / ROOT
    (mine / f"latency/mon_groups/pod-{POD}").rename(mine / f"mon_groups/pod-{POD}")
    plant({**counters("", "00", 1, 5800, 0), **counters("latency/", "00", 1, 100, 0)})
    found = of(values(collector.collect()), "memory_bandwidth_bytes_total")
    assert found['{domain="0",scope="total"}'] == 0


def test_groups_are_exported_with_a_flag(plant, values) -> None:
    collector = Resctrl(plant(xeon(5000, 900, 800)), Options(resctrl_groups=True))
    list(collector.collect())
    plant(xeon(5100, 950, 830))
    found = values(collector.collect())
    pod = f'{{control_group="latency",monitor_group="pod-{POD}"'
    assert set(of(found, "group_info")) == {
        '{control_group="/",monitor_group="",pod_uid="",container_id=""}',
        f'{{control_group="/",monitor_group="{CONTAINER}",pod_uid="",container_id="{CONTAINER}"}}',
        '{control_group="latency",monitor_group="",pod_uid="",container_id=""}',
        f'{pod},pod_uid="{POD}",container_id=""}}',
    }
    moved = of(found, "group_memory_bandwidth_bytes_total")
    assert moved[f'{pod},domain="0",scope="total"}}'] == 30
    assert moved['{control_group="latency",monitor_group="",domain="0",scope="total"}'] == 50
    assert moved['{control_group="/",monitor_group="",domain="0",scope="local"}'] == 50
    used = of(found, "group_llc_occupancy_bytes")
    assert used[f'{pod},domain="0"}}'] == 512
    assert used['{control_group="/",monitor_group="",domain="1"}'] == 4096


def test_groups_are_off_by_default(plant, values) -> None:
    found = values(Resctrl(plant(xeon(1, 1, 1)), Options()).collect())
    assert of(found, "group") == {}


def test_sub_numa_clusters_are_part_of_their_cache(plant, values) -> None:
    files = {**INFO, **counters("", "00", 300, 1000, 600), **counters("", "01", 10, 20, 20)}
    for node in ("mon_L3_00/mon_sub_L3_00", "mon_L3_00/mon_sub_L3_01", "mon_L3_01/mon_sub_L3_02"):
        files[f"{ROOT}/mon_data/{node}/llc_occupancy"] = "150\n"
        files[f"{ROOT}/mon_data/{node}/mbm_total_bytes"] = "500\n"
    found = values(Resctrl(plant(files), Options()).collect())
    assert of(found, "llc_occupancy_bytes") == {'{domain="0"}': 300, '{domain="1"}': 10}
    assert len(of(found, "memory_bandwidth_bytes_total")) == 4


def test_domains_are_numbers_without_padding(plant, values) -> None:
    """A cache per CCX: many caches, with gaps between their ids; other counters are ignored."""
    files = {
        **INFO,
        **counters("", "00", 1, 1, 1),
        **counters("", "08", 8, 1, 1),
        **counters("", "112", 9, 1, 1),
        f"{ROOT}/mon_data/mon_PERF_PKG_00/core_energy": "12.5\n",
    }
    found = values(Resctrl(plant(files), Options()).collect())
    assert set(of(found, "llc_occupancy_bytes")) == {
        '{domain="0"}',
        '{domain="8"}',
        '{domain="112"}',
    }


def test_unavailable_values_are_skipped_and_counted(plant, values) -> None:
    files = {
        **INFO,
        **counters("", "00", 100, "Unavailable", "Unassigned"),
        **counters("busy/", "00", "Error", "Unavailable", "Unassigned"),
    }
    collector = Resctrl(plant(files), Options())
    found = values(collector.collect())
    assert of(found, "llc_occupancy_bytes") == {'{domain="0"}': 100}
    assert of(found, "memory_bandwidth_bytes_total") == {}
    found = values(collector.collect())
    assert of(found, "unavailable_reads_total") == {
        '{reason="unavailable"}': 4,
        '{reason="error"}': 2,
        '{reason="unassigned"}': 4,
    }


def test_amd_with_configurable_events_and_slow_memory_is_exported(plant, values) -> None:
    files = {
        **INFO,
        f"{ROOT}/info/L3_MON/mon_features": "llc_occupancy\nmbm_total_bytes\nmbm_total_bytes_config\nmbm_local_bytes\n",
        f"{ROOT}/info/L3_MON/mbm_total_bytes_config": "0=0x7f\n",
        f"{ROOT}/schemata": "  SMBA:0=2048;1=  64\n    MB:0=2048;1=2048\n    L3:0=ffff;1=ffff\n",
        **counters("", "00", 100, 1, 1),
    }
    found = values(Resctrl(plant(files), Options()).collect())
    limits = of(found, "schemata")
    assert limits['{control_group="/",resource="SMBA",domain="1"}'] == 64
    assert limits['{control_group="/",resource="MB",domain="0"}'] == 2048
    assert of(found, "llc_occupancy_bytes") == {'{domain="0"}': 100}


def test_machine_with_limits_only_is_exported(plant, values) -> None:
    files = {f"{ROOT}/info/L3/cbm_mask": "fffff\n", f"{ROOT}/schemata": "L3:0=fffff\n"}
    assert values(Resctrl(plant(files), Options()).collect()) == {
        'node_resctrl_schemata{control_group="/",resource="L3",domain="0"}': 0xFFFFF
    }


def test_duplicate_limit_is_one_series(plant, values) -> None:
    files = {f"{ROOT}/info/L3/cbm_mask": "f\n", f"{ROOT}/schemata": "L3:0=1;0=3\nL3:0=7\n"}
    assert list(values(Resctrl(plant(files), Options()).collect()).values()) == [7]


def test_unmounted_resctrl_is_absent_and_mounting_is_noticed(plant, tmp_path: Path, values) -> None:
    (tmp_path / ROOT).mkdir(parents=True)
    collector = Resctrl(plant({}), Options())
    with pytest.raises(SourceAbsentError, match="not mounted"):
        list(collector.collect())
    plant(xeon(5000, 900, 800))
    assert of(values(collector.collect()), "rmids") == {"": 288}


def test_nothing_is_ever_written(plant, tmp_path: Path) -> None:
    machine = plant(xeon(5000, 900, 800))
    paths = sorted((tmp_path / ROOT).rglob("*"))
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in paths}
    list(Resctrl(machine, Options(resctrl_groups=True)).collect())
    paths = sorted((tmp_path / ROOT).rglob("*"))
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in paths} == before


def test_name_of_any_bytes_does_not_fail(plant, tmp_path: Path, values) -> None:
    plant(xeon(1, 1, 1))
    (tmp_path / ROOT / "caf\udce9").mkdir()
    plant({f"{ROOT}/caf\udce9/schemata": "L3:0=1\n"})
    host = Host(sysfs=tmp_path / "sys")
    found = of(values(Resctrl(host, Options()).collect()), "schemata")
    assert found['{control_group="caf\\xe9",resource="L3",domain="0"}'] == 1


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("L3:0=fffff;1=3c0\n", [("L3", "0", 0xFFFFF), ("L3", "1", 0x3C0)]),
        ("L3DATA:0=f\nL3CODE:0=f0\n", [("L3DATA", "0", 0xF), ("L3CODE", "0", 0xF0)]),
        ("    L2:10=1\n", [("L2", "10", 1)]),
        ("    MB:0=100;1=  20\n", [("MB", "0", 100), ("MB", "1", 20)]),
        ("L3:uninitialized\nMB:uninitialized\n", []),
        ("", []),
    ],
)
def test_schemata_are_parsed(text: str, limits: list[tuple[str, str, int]]) -> None:
    assert list(parse_schemata(text)) == limits


@pytest.mark.parametrize(
    "text", ["\n", "L3\n", "L3:\n", "L3:0\n", "L3:0=xyz\n", "MB:0=ff\n", "MB:-1=5"]
)
def test_invalid_schemata_are_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="schemata"):
        list(parse_schemata(text))


def test_unknown_resource_or_reading_costs_itself(plant, values) -> None:
    well = {
        **xeon(4096, 5, 6),
        f"{ROOT}/schemata": "MB:0=100;1=100\nL3:0=fffff;1=fffff\n",
    }
    before = values(Resctrl(plant(well), Options()).collect())
    odd = "MB:0=100;1=100\nL3:0=fffff;1=fffff\nMB_MIN:0=0x10;1=0x10\nPERF_PKG:0=12.500\n"
    host = plant({f"{ROOT}/schemata": odd, f"{ROOT}/mon_data/mon_L3_00/llc_occupancy": "many\n"})
    found = values(Resctrl(host, Options()).collect())
    limits = {s: v for s, v in before.items() if "schemata" in s}
    assert len(limits) >= 4
    assert found.items() >= limits.items()
    assert before.keys() - found.keys() <= {'node_resctrl_llc_occupancy_bytes{domain="0"}'}


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
