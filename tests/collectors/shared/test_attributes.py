import os
from pathlib import Path

import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.shared import attributes


def test_existing_attributes_are_read_and_missing_ones_omitted(tmp_path: Path) -> None:
    (tmp_path / "mtu").write_text("1500\n")
    (tmp_path / "ifalias").write_text("\n")
    (tmp_path / "statistics").mkdir()
    found = attributes.read(str(tmp_path), ("mtu", "ifalias", "statistics", "speed"))
    assert found == {"mtu": "1500", "ifalias": ""}


def test_directory_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "device").mkdir()
    (tmp_path / "device/mtu").write_text("9000\n")
    (tmp_path / "eth0").symlink_to("device")
    assert attributes.read(f"{tmp_path}/eth0", ("mtu",)) == {"mtu": "9000"}


def test_undecodable_bytes_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "ifalias").write_bytes(b"up\xff\xfelink\n")
    assert attributes.read(str(tmp_path), ("ifalias",)) == {"ifalias": "up\ufffdlink"}


@pytest.mark.parametrize("name", ["gone", "a_file"])
def test_missing_directory_is_no_device(tmp_path: Path, name: str) -> None:
    (tmp_path / "a_file").touch()
    with pytest.raises(SourceAbsentError, match=name):
        attributes.read(f"{tmp_path}/{name}", ("mtu",))


def test_no_file_stays_open(tmp_path: Path) -> None:
    (tmp_path / "mtu").write_text("1500\n")
    (tmp_path / "statistics").mkdir()
    attributes.read(str(tmp_path), ("mtu", "speed", "statistics"))
    opened = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert [file for file in opened if file.startswith(str(tmp_path))] == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1500", 1500),
        ("-1", -1),
        ("0x1003", 0x1003),
        ("", None),
        ("N/A", None),
        ("0x", None),
        ("--1", None),
        ("1.5", None),
        ("1_000", None),
    ],
)
def test_driver_number_formats_are_parsed(text: str, value: int | None) -> None:
    assert attributes.parse_number(text) == value
