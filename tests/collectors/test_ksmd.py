from pathlib import Path

import pytest

from collectors import ksmd
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.ksmd import Ksmd, parse

PARSERS = {
    "ksmd": lambda text: [ksmd.parse("general_profit", text)],
}

SAMPLES = {
    "ksmd": ("sys/kernel/mm/ksm/general_profit", lambda t: [ksmd.parse("general_profit", t)]),
}


def test_all_files_are_exported_and_profit_may_be_negative(machine, values) -> None:
    assert values(Ksmd(machine("xeon")).collect()) == {
        "node_ksmd_full_scans_total": 331,
        "node_ksmd_general_profit_bytes": -81920,
        "node_ksmd_merge_across_nodes": 1,
        "node_ksmd_pages_shared": 4,
        "node_ksmd_pages_sharing": 9,
        "node_ksmd_pages_to_scan": 100,
        "node_ksmd_pages_unshared": 20,
        "node_ksmd_pages_volatile": 3,
        "node_ksmd_run": 1,
        "node_ksmd_sleep_seconds": 0.02,
    }


def test_older_kernel_has_fewer_files(tmp_path: Path, values) -> None:
    directory = tmp_path / "kernel/mm/ksm"
    directory.mkdir(parents=True)
    (directory / "run").write_text("0\n")
    assert values(Ksmd(Host(sysfs=tmp_path)).collect()) == {"node_ksmd_run": 0}


def test_kernel_without_ksm_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Ksmd(Host(sysfs=tmp_path)).collect())


@pytest.mark.parametrize("text", ["", "\n", "--1", "on", "1 2"])
def test_non_number_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="ksm/run"):
        parse("run", text)
