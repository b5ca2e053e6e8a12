from pathlib import Path

import pytest

from collectors import conntrack
from collectors.conntrack import Conntrack, parse
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError

PARSERS = {
    "conntrack": conntrack.parse,
    "conntrack rows": lambda text: conntrack.parse(f"entries found\n{text}"),
}


TABLE = "entries found drop\n00000021 00000002 00000001\n00000021 0000000a 00000000\n"


def test_entries_and_events_are_summed_over_cpus(machine, values) -> None:
    assert values(Conntrack(machine("xeon")).collect()) == {
        "node_nf_conntrack_entries": 8001,
        "node_nf_conntrack_entries_limit": 262144,
        "node_nf_conntrack_stat_found": 15,
        "node_nf_conntrack_stat_invalid": 0xB1D,
        "node_nf_conntrack_stat_ignore": 0,
        "node_nf_conntrack_stat_insert": 0,
        "node_nf_conntrack_stat_insert_failed": 4,
        "node_nf_conntrack_stat_drop": 4,
        "node_nf_conntrack_stat_early_drop": 2,
        "node_nf_conntrack_stat_search_restart": 300,
    }


def test_column_missing_in_an_old_kernel_is_absent(machine, values) -> None:
    found = values(Conntrack(machine("vm2012")).collect())
    assert found["node_nf_conntrack_stat_insert"] == 15
    assert "node_nf_conntrack_stat_search_restart" not in found


def test_entries_and_limit_are_exported_without_the_table(tmp_path: Path, values) -> None:
    sysctl = tmp_path / "sys/net/netfilter"
    sysctl.mkdir(parents=True)
    (sysctl / "nf_conntrack_count").write_text("5\n")
    (sysctl / "nf_conntrack_max").write_text("100\n")
    assert values(Conntrack(Host(procfs=tmp_path)).collect()) == {
        "node_nf_conntrack_entries": 5,
        "node_nf_conntrack_entries_limit": 100,
    }


def test_pod_reads_the_nodes_table(tmp_path: Path, values) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text("NSpid:\t9011\t7\n")
    for directory in ("1/net/stat", "net", "sys/net/netfilter"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "1/net/dev").touch()
    (tmp_path / "net/dev").touch()
    (tmp_path / "1/net/stat/nf_conntrack").write_text(TABLE)
    (tmp_path / "sys/net/netfilter/nf_conntrack_count").write_text("2\n")
    (tmp_path / "sys/net/netfilter/nf_conntrack_max").write_text("100\n")
    found = values(Conntrack(Host(procfs=tmp_path)).collect())
    assert found["node_nf_conntrack_entries"] == 0x21
    (tmp_path / "1/net/stat/nf_conntrack").unlink()
    with pytest.raises(SourceAbsentError):
        values(Conntrack(Host(procfs=tmp_path)).collect())


def test_missing_module_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Conntrack(Host(procfs=tmp_path)).collect())


def test_non_numeric_count_is_left_out(tmp_path: Path, values) -> None:
    sysctl = tmp_path / "sys/net/netfilter"
    sysctl.mkdir(parents=True)
    (sysctl / "nf_conntrack_count").write_text("many\n")
    (sysctl / "nf_conntrack_max").write_text("100\n")
    found = values(Conntrack(Host(procfs=tmp_path)).collect())
    assert found == {"node_nf_conntrack_entries_limit": 100}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "entries found\n",
        "found drop\n00000001 00000002\n",
        "entries found\n00000001\n",
        "entries found\n00000001 00000002 3\n",
        TABLE + "\n",
    ],
)
def test_invalid_table_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="nf_conntrack"):
        parse(text)
