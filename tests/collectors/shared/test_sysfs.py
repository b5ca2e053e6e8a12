from pathlib import Path

import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.shared import sysfs


def test_attribute_is_stripped(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("SAMSUNG MZQL23T8HCLS        \n")
    (tmp_path / "temp").write_text("-1500\n")
    assert sysfs.attribute(f"{tmp_path}/model") == "SAMSUNG MZQL23T8HCLS"
    assert sysfs.content(f"{tmp_path}/model") == "SAMSUNG MZQL23T8HCLS        \n"
    assert sysfs.number(f"{tmp_path}/temp") == -1500


@pytest.mark.parametrize("text", ["", "\n", "n/a", "1.5", "0x10", "1_0", "--1", "9" * 30, "1 2"])
def test_non_number_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    assert sysfs.number(f"{tmp_path}/file") is None


def test_unreadable_attribute_is_none(tmp_path: Path, failing_reads) -> None:
    failing_reads(tmp_path / "sick")
    (tmp_path / "directory").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("sick", "directory", "loop", "missing", "missing/file"):
        assert sysfs.attribute(f"{tmp_path}/{name}") is None, name
        assert sysfs.number(f"{tmp_path}/{name}") is None, name


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"Dell Inc.", "Dell Inc."),
        ("Köln".encode(), "Köln"),
        (b"\xd1[\xd1", "\ufffd[\ufffd"),
        (b"a\xff\xfe\xfdb", "a\ufffdb"),
        (b"\xe2\x82", "\ufffd"),
    ],
)
def test_undecodable_bytes_are_replaced_as_by_go(raw: bytes, text: str) -> None:
    assert sysfs.decode(raw) == text


def test_listing_is_sorted_without_unprintable_names(tmp_path: Path) -> None:
    for name in ("b", "a", "B"):
        (tmp_path / name).touch()
    (tmp_path / "\udcff").touch()  # the byte ff, which is invalid UTF-8
    assert list(sysfs.listing(tmp_path)) == ["B", "a", "b"]


def test_missing_directory_is_an_absent_source(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        with pytest.raises(SourceAbsentError):
            sysfs.listing(tmp_path / name)
        assert sysfs.listing_optional(tmp_path / name) == {}


def test_derived_data_is_recomputed_only_after_a_change(
    tmp_path: Path,
) -> None:
    seen: list[list[str]] = []
    derived = sysfs.Derived(lambda listings: seen.append([*listings[0], *listings[1]]),
                            tmp_path, tmp_path / "sub")  # fmt: skip
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
    derived.get()
    derived.get()
    assert seen == [["0", "1"]]
    (tmp_path / "2").mkdir()
    derived.get()
    assert seen[1:] == [["0", "1", "2"]]
    (tmp_path / "new").mkdir()
    (tmp_path / "2").rmdir()
    (tmp_path / "new").rename(tmp_path / "2")
    derived.get()
    assert seen[2:] == [["0", "1", "2"]], "another device of the same name"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/x").touch()
    derived.get()
    assert seen[3:] == [["0", "1", "2", "sub", "x"]]
