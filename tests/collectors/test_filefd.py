from pathlib import Path

import pytest

from collectors.base.host import Host
from collectors.base.sample import CollectorError, SourceAbsentError
from collectors.filefd import FileFd, parse


def test_allocated_and_maximum(machine, values) -> None:
    assert values(FileFd(machine("xeon")).collect()) == {
        "node_filefd_allocated": 12480,
        "node_filefd_maximum": 9223372036854775807,
    }


def test_a_host_without_it_has_no_such_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(FileFd(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize("text", ["", "1024\t0\n", "1024\t0\tmany\n", "1\t2\t3\t4\n", "-1\t0\t5\n"])
def test_refuses_what_is_no_file_nr(text: str) -> None:
    with pytest.raises(CollectorError, match="file-nr"):
        list(parse(text))
