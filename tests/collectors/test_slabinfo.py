import os
from pathlib import Path

import pytest

from collectors import slabinfo
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.shared.formats.patterns import DeviceFilter
from collectors.slabinfo import Options, SlabInfo, parse

PARSERS = {
    "slabinfo": lambda text: slabinfo.parse(f"{slabinfo.HEAD}1\n{text}", DeviceFilter("", "")),
}

SAMPLES = {
    "slabinfo": ("proc/slabinfo", lambda t: slabinfo.parse(t, DeviceFilter("", ""))),
}


EVERY = DeviceFilter("", "")
HEAD = "slabinfo - version: 2.1\n# name <active_objs>\n"
TAIL = ": tunables    0    0    0 : slabdata      0      0      0\n"


def test_numbers_of_each_slab_are_exported(machine, values) -> None:
    found = values(SlabInfo(machine("xeon"), Options()).collect())
    assert len(found) == 3 * 5
    assert {s: v for s, v in found.items() if "dentry" in s} == {
        'node_slabinfo_active_objects{slab="dentry"}': 881200,
        'node_slabinfo_objects{slab="dentry"}': 900123,
        'node_slabinfo_object_size_bytes{slab="dentry"}': 192,
        'node_slabinfo_objects_per_slab{slab="dentry"}': 42,
        'node_slabinfo_pages_per_slab{slab="dentry"}': 2,
    }


def test_slabs_can_be_included_and_excluded(machine, values) -> None:
    options = Options(slabinfo_include="e", slabinfo_exclude="^ext4")
    found = values(SlabInfo(machine("xeon"), options).collect())
    assert {series.split('"')[1] for series in found} == {"dentry"}


def test_name_may_contain_blanks(values) -> None:
    found = values(parse(f"{HEAD}my driver  cache 1 2 3 4 5 {TAIL}", EVERY))
    assert found['node_slabinfo_pages_per_slab{slab="my driver  cache"}'] == 5


def test_missing_file_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(SlabInfo(Host(procfs=tmp_path), Options()).collect())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that others cannot read")
def test_permission_error_mentions_root(tmp_path: Path) -> None:
    """In a process without root, which would be allowed everything."""
    (tmp_path / "slabinfo").write_text(HEAD)
    (tmp_path / "slabinfo").chmod(0o400)
    collector = SlabInfo(Host(procfs=tmp_path), Options())
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(CollectorError, match="root only") as raised:
            list(collector.collect())
    finally:
        os.seteuid(0)
    assert not isinstance(raised.value, SourceAbsentError)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slabinfo - version: 1.2\n",
        "slabinfo - version: 2.1",
        f"{HEAD}dentry 1 2 3 4 {TAIL}",
        f"{HEAD}dentry 1 2 3 4 x {TAIL}",
        f"{HEAD}dentry 1 2",
    ],
)
def test_invalid_slabinfo_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="slabinfo"):
        list(parse(text, EVERY))


def test_slabs_of_one_name_are_added_up(values) -> None:
    text = f"{HEAD}fgs 30 40 776 40 8 : tunables 0\nfgs 12 40 776 40 8 : tunables 0\ndentry 5 6 192 42 2 : tunables 0\n"
    found = values(parse(text, DeviceFilter("", "")))
    assert found['node_slabinfo_active_objects{slab="fgs"}'] == 42
    assert found['node_slabinfo_objects{slab="fgs"}'] == 80
    assert found['node_slabinfo_object_size_bytes{slab="fgs"}'] == 776
    assert found['node_slabinfo_pages_per_slab{slab="fgs"}'] == 8
    assert found['node_slabinfo_active_objects{slab="dentry"}'] == 5
