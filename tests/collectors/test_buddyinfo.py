from pathlib import Path

import pytest

from collectors import buddyinfo
from collectors.buddyinfo import BuddyInfo, parse
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError

PARSERS = {
    "buddyinfo": buddyinfo.parse,
}

SAMPLES = {
    "buddyinfo": ("proc/buddyinfo", buddyinfo.parse),
}


def test_free_blocks_are_by_zone_and_size(machine, values) -> None:
    found = values(BuddyInfo(machine("xeon")).collect())
    assert len(found) == 3 * 11
    assert found['node_buddyinfo_blocks{node="0",zone="Normal",size="0"}'] == 91203
    assert found['node_buddyinfo_blocks{node="1",zone="Normal",size="10"}'] == 91203
    assert found['node_buddyinfo_blocks{node="0",zone="DMA",size="1"}'] == 0


def test_other_number_of_sizes_is_supported(values) -> None:
    found = values(parse("Node 0, zone   Normal   7   5   3\n"))
    assert list(found.values()) == [7, 5, 3]


def test_missing_file_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(BuddyInfo(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Node 0, zone Normal\n",
        "Node 0, zone Normal 1 x\n",
        "Node 0, zone Normal 1 -1\n",
        "Zone 0\n",
    ],
)
def test_invalid_buddyinfo_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="buddyinfo"):
        list(parse(text))
