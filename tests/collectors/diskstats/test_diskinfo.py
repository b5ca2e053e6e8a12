import os
from pathlib import Path

from collectors.diskstats import diskinfo


def test_only_properties_are_read() -> None:
    assert diskinfo.parse_properties(
        "S:disk/by-id/x\nI:120\nE:ID_MODEL=a=b\nE:EMPTY=\nE:broken\nG:systemd\nE:ID"
    ) == {
        "ID_MODEL": "a=b",
        "EMPTY": "",
    }


def test_unknown_device_has_no_properties(machine) -> None:
    database = machine("xeon").udev
    assert diskinfo.properties_of(database, "8", "0")["ID_SERIAL_SHORT"] == "ZC1A0B2C"
    assert diskinfo.properties_of(database, "8", "99") == {}


def test_unreadable_database_has_no_properties(tmp_path: Path) -> None:
    (tmp_path / "b8:0").mkdir()
    assert diskinfo.properties_of(tmp_path, "8", "0") == {}


def test_renamed_file_makes_a_new_generation(tmp_path: Path) -> None:
    os.utime(tmp_path, (1790000000, 1790000000))
    before = diskinfo.generation(tmp_path)
    assert before == diskinfo.generation(tmp_path)
    (tmp_path / ".new").write_text("E:ID_MODEL=x\n")
    (tmp_path / ".new").rename(tmp_path / "b8:0")
    assert diskinfo.generation(tmp_path) != before
    assert diskinfo.generation(tmp_path / "none") is None
