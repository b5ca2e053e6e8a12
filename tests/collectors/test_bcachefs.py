import pytest

from collectors.bcachefs import Bcachefs, parse_errors, parse_size
from collectors.interface.sample import SourceAbsentError

UUID = "5f6b3b1e-7b38-4a8c-a0c1-0c5b6a7d8e9f"
FS = f"sys/fs/bcachefs/{UUID}"
IO_ERRORS = """\
IO errors since filesystem creation
  read:    7
  checksum:1
IO errors since 8 y ago
  read:    3
"""
FILES = {
    f"{FS}/btree_cache_size": "2.50M\n",
    f"{FS}/compression_stats": "type compressed uncompressed average extent size\nzstd  1.00M  4.00M  64.0k\nnone x 1\n",
    f"{FS}/btree_write_stats": "      nr  size\ninitial:  33  4k\n",
    f"{FS}/errors": "bset_bad_csum   2   1767112063\n",
    f"{FS}/counters/btree_node_read": "since mount:   5\nsince filesystem creation:  70\n",
    f"{FS}/dev-0/label": "disk.a\n",
    f"{FS}/dev-0/state": "[rw] ro evacuating spare\n",
    f"{FS}/dev-0/bucket_size": "512k\n",
    f"{FS}/dev-0/nbuckets": "953880\n",
    f"{FS}/dev-0/durability": "1\n",
    f"{FS}/dev-0/io_done": "read:\nsb   :  4096\nuser :102313054208\nwrite:\nsb   :  8192\n",
    f"{FS}/dev-0/io_errors": IO_ERRORS,
}


def test_file_system_and_its_devices_are_exported(plant, values) -> None:
    found = values(Bcachefs(plant(FILES)).collect())
    expected = {
        "info": ("", 1),
        "btree_cache_size_bytes": ("", 2.5 * (1 << 20)),
        "compression_compressed_bytes": (',algorithm="zstd"', 1 << 20),
        "compression_uncompressed_bytes": (',algorithm="zstd"', 4 << 20),
        "btree_writes_total": (',type="initial"', 33),
        "btree_write_average_size_bytes": (',type="initial"', 4096),
        "errors_total": (',error_type="bset_bad_csum"', 2),
        "btree_node_read_total": ("", 70),
        "device_info": (',device="0",label="disk.a",state="[rw] ro evacuating spare"', 1),
        "device_bucket_size_bytes": (',device="0"', 512 << 10),
        "device_buckets": (',device="0"', 953880),
        "device_durability": (',device="0"', 1),
    }
    for name, (labels, value) in expected.items():
        assert found.pop(f'node_bcachefs_{name}{{uuid="{UUID}"{labels}}}', None) == value, name
    device = f'uuid="{UUID}",device="0"'
    io = f"node_bcachefs_device_io_done_bytes_total{{{device}"
    errors = f"node_bcachefs_device_io_errors_total{{{device}"
    compressions = {series for series in found if 'algorithm="none"' in series}
    assert {series: value for series, value in found.items() if series not in compressions} == {
        f'{io},operation="read",data_type="sb"}}': 4096,
        f'{io},operation="read",data_type="user"}}': 102313054208,
        f'{io},operation="write",data_type="sb"}}': 8192,
        f'{errors},type="read"}}': 7,
        f'{errors},type="checksum"}}': 1,
    }


def test_count_that_reaches_into_the_column_of_the_time_is_separated() -> None:
    line = "extent_io_opts_not_set              11299659571772285102\n"
    assert list(parse_errors(line)) == [("errors_total", ("extent_io_opts_not_set",), 1129965957)]


@pytest.mark.parametrize("text", ["", "x", "1.2.3k", "-1", "1z", "9" * 400])
def test_other_text_is_no_size(text: str) -> None:
    assert parse_size(text) is None


def test_machine_without_bcachefs_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Bcachefs(plant({})).collect())
