from pathlib import Path

import pytest

from collectors import stat
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.stat import Options, Stat, parse

PARSERS = {
    "stat": lambda text: stat.parse(text, softirqs=True),
}

SAMPLES = {
    "stat": ("proc/stat", lambda t: stat.parse(t, softirqs=True)),
}


def test_totals_since_boot_are_exported(machine, values) -> None:
    assert values(Stat(machine("xeon"), Options()).collect()) == {
        "node_intr_total": 291120031,
        "node_context_switches_total": 612200119,
        "node_forks_total": 991827,
        "node_boot_time_seconds": 1790000000,
        "node_procs_running": 4,
        "node_procs_blocked": 0,
    }


def test_softirqs_are_by_vector_with_a_flag(machine, values) -> None:
    found = values(Stat(machine("xeon"), Options(stat_softirq=True)).collect())
    assert {s: v for s, v in found.items() if "softirq" in s} == {
        'node_softirqs_total{vector="hi"}': 12,
        'node_softirqs_total{vector="timer"}': 20112001,
        'node_softirqs_total{vector="net_tx"}': 33,
        'node_softirqs_total{vector="net_rx"}': 9910221,
        'node_softirqs_total{vector="block"}': 440120,
        'node_softirqs_total{vector="block_iopoll"}': 0,
        'node_softirqs_total{vector="tasklet"}': 81002,
        'node_softirqs_total{vector="sched"}': 40012033,
        'node_softirqs_total{vector="hrtimer"}': 0,
        'node_softirqs_total{vector="rcu"}': 21655909,
    }


def test_missing_line_is_absent_not_zero(values) -> None:
    assert values(parse("ctxt 12\n", softirqs=True)) == {"node_context_switches_total": 12}


def test_missing_file_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Stat(Host(procfs=tmp_path), Options()).collect())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cpu 1 2 3 4\n",
        "intr\n",
        "ctxt many\n",
        "btime -1\n",
    ],
)
def test_invalid_stat_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="stat"):
        list(parse(text, softirqs=True))


@pytest.mark.parametrize("count", ["-2031415926", "18446744073709551616", "many", "", "1,2"])
def test_odd_number_is_left_out(count: str, values) -> None:
    found = values(parse(f"ctxt 12\nbtime 1690000000\nprocesses {count}\n", softirqs=False))
    assert found == {"node_context_switches_total": 12, "node_boot_time_seconds": 1690000000}
