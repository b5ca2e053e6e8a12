from pathlib import Path

import pytest

from collectors import cgroups
from collectors.cgroups import Cgroups, parse
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError

PARSERS = {
    "cgroups": cgroups.parse,
}

SAMPLES = {
    "cgroups": ("proc/cgroups", cgroups.parse),
}


def test_number_and_state_of_each_controller_are_exported(machine, values) -> None:
    assert values(Cgroups(machine("xeon")).collect()) == {
        'node_cgroups_cgroups{subsys_name="cpuset"}': 412,
        'node_cgroups_cgroups{subsys_name="cpu"}': 412,
        'node_cgroups_cgroups{subsys_name="memory"}': 412,
        'node_cgroups_cgroups{subsys_name="hugetlb"}': 412,
        'node_cgroups_enabled{subsys_name="cpuset"}': 1,
        'node_cgroups_enabled{subsys_name="cpu"}': 1,
        'node_cgroups_enabled{subsys_name="memory"}': 1,
        'node_cgroups_enabled{subsys_name="hugetlb"}': 0,
    }


def test_missing_file_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Cgroups(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize(
    "text", ["", "#subsys_name\n", "cpu\t1\t2\n", "cpu\t1\tx\t1\n", "cpu\t1\t2\t-1\n", "cpu 1 2 3 4\n"]
)  # fmt: skip
def test_invalid_cgroup_list_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="cgroups"):
        list(parse(text))
