from pathlib import Path

import pytest

from collectors import schedstat
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.schedstat import SchedStat, parse

PARSERS = {
    "schedstat": schedstat.parse,
}

SAMPLES = {
    "schedstat": ("proc/schedstat", schedstat.parse),
}


# Linux 3.10: another version of the file, other lines between the CPUs, the same columns.
OLD = """\
version 15
timestamp 15819019232
cpu1 498494191 0 3533438552 2553969831 3853684107 2465731542 2045936778163039 343796328169361 4767485306
domain0 00000000,00000003 212499247 210112015 1861015 1860405436
"""


def test_times_and_slices_are_by_cpu(machine, values) -> None:
    found = values(SchedStat(machine("xeon")).collect())
    assert len(found) == 12
    assert found['node_schedstat_running_seconds_total{cpu="0"}'] == 812345.678901234
    assert found['node_schedstat_waiting_seconds_total{cpu="0"}'] == 91234.567890123
    assert found['node_schedstat_timeslices_total{cpu="3"}'] == 498700212


def test_older_kernel_is_supported(values) -> None:
    assert values(parse(OLD)) == {
        'node_schedstat_running_seconds_total{cpu="1"}': 2045936.778163039,
        'node_schedstat_waiting_seconds_total{cpu="1"}': 343796.328169361,
        'node_schedstat_timeslices_total{cpu="1"}': 4767485306,
    }


def test_kernel_without_schedstat_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(SchedStat(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version 15\n",
        "cpu0 0 0 0 0 0 0 1 2\n",
        "cpu0 0 0 0 0 0 0 1 2 -3\n",
        "cpu0 0 0 0 0 0 0 1.5 2 3\n",
        "cpux 0 0 0 0 0 0 1 2 3\n",
    ],
)
def test_invalid_schedstat_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="schedstat"):
        list(parse(text))
