from pathlib import Path

import pytest

from collectors import filefd
from collectors.filefd import FileFd, parse
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError

PARSERS = {
    "filefd": filefd.parse,
}

SAMPLES = {
    "filefd": ("proc/sys/fs/file-nr", filefd.parse),
}


def test_allocated_and_maximum_are_exported(machine, values) -> None:
    assert values(FileFd(machine("xeon")).collect()) == {
        "node_filefd_allocated": 12480,
        "node_filefd_maximum": 9223372036854775807,
    }


def test_missing_file_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(FileFd(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize("text", ["", "1024\t0\n", "a\t0\tmany\n", "1\t2\t3\t4\n"])
def test_invalid_file_nr_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="file-nr"):
        list(parse(text))
