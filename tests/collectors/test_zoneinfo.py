from pathlib import Path

import pytest

from collectors import zoneinfo
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.zoneinfo import ZoneInfo, parse

PARSERS = {
    "zoneinfo": zoneinfo.parse,
}

SAMPLES = {
    "zoneinfo": ("proc/zoneinfo", zoneinfo.parse),
}


# Linux 3.10: counts by zone, scanned pages, and a limit that is no watermark.
OLD = """\
Node 0, zone   Normal
  pages free     4521
        min      11225
        low      14031
        high     16837
        scanned  3
        spanned  3407872
    nr_free_pages 4521
    nr_inactive_anon 120
    nr_mlock_stack 7
"""


def test_watermarks_and_counts_of_each_zone_are_exported(machine, values) -> None:
    found = values(ZoneInfo(machine("xeon")).collect())
    normal = 'node="0",zone="Normal"'
    assert {s: v for s, v in found.items() if normal in s} == {
        f"node_zoneinfo_min_pages{{{normal}}}": 14120,
        f"node_zoneinfo_low_pages{{{normal}}}": 48120,
        f"node_zoneinfo_high_pages{{{normal}}}": 82120,
        f"node_zoneinfo_spanned_pages{{{normal}}}": 33030144,
        f"node_zoneinfo_present_pages{{{normal}}}": 33030144,
        f"node_zoneinfo_managed_pages{{{normal}}}": 32469000,
        **{f"node_zoneinfo_protection_{index}{{{normal}}}": 0 for index in range(5)},
        f"node_zoneinfo_nr_free_pages{{{normal}}}": 1201200,
        f"node_zoneinfo_numa_hit_total{{{normal}}}": 880120033112,
        f"node_zoneinfo_numa_miss_total{{{normal}}}": 12,
        f"node_zoneinfo_numa_foreign_total{{{normal}}}": 120,
        f"node_zoneinfo_numa_interleave_total{{{normal}}}": 91203,
        f"node_zoneinfo_numa_local_total{{{normal}}}": 880120031000,
        f"node_zoneinfo_numa_other_total{{{normal}}}": 2112,
    }, "and the `high:` of a CPU's page set is no watermark"


def test_values_of_a_node_are_read_from_its_first_zone(machine, values) -> None:
    found = values(ZoneInfo(machine("xeon")).collect())
    dma = 'node="0",zone="DMA"'
    assert found[f"node_zoneinfo_nr_inactive_anon_pages{{{dma}}}"] == 91203
    assert found[f"node_zoneinfo_nr_kernel_stacks{{{dma}}}"] == 22001
    assert found[f"node_zoneinfo_nr_dirtied_total{{{dma}}}"] == 9120033
    assert found[f"node_zoneinfo_protection_1{{{dma}}}"] == 1611
    assert found['node_zoneinfo_managed_pages{node="1",zone="Movable"}'] == 0


def test_older_kernel_is_supported(values) -> None:
    label = '{node="0",zone="Normal"}'
    assert values(parse(OLD)) == {
        f"node_zoneinfo_min_pages{label}": 11225,
        f"node_zoneinfo_low_pages{label}": 14031,
        f"node_zoneinfo_high_pages{label}": 16837,
        f"node_zoneinfo_scanned_pages{label}": 3,
        f"node_zoneinfo_spanned_pages{label}": 3407872,
        f"node_zoneinfo_nr_free_pages{label}": 4521,
        f"node_zoneinfo_nr_inactive_anon_pages{label}": 120,
        f"node_zoneinfo_nr_mlock_stack_pages{label}": 7,
    }


def test_missing_file_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(ZoneInfo(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Node 0, zone Normal\n",
        "        min      11225\n",
        "Node 0, zone Normal\n        min      x\n",
        "Node 0, zone Normal\n        min\n",
        "Node 0 zone Normal\n",
        "Node",
    ],
)
def test_invalid_zoneinfo_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="zoneinfo"):
        list(parse(text))
