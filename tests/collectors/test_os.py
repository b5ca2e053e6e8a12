from pathlib import Path

import pytest

from collectors import os as os_release
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.os import Os, families, parse

PARSERS = {
    "os": lambda text: os_release.families(os_release.parse(text)),
}

SAMPLES = {
    "os": ("etc/os-release", lambda t: os_release.families(os_release.parse(t))),
}


ARCH = 'NAME="Arch Linux"\nPRETTY_NAME="Arch Linux"\nID=arch\nBUILD_ID=rolling\n'
FLATCAR = """\
NAME="Flatcar Container Linux by Kinvolk"
ID=flatcar
ID_LIKE=coreos
VERSION=4081.2.0
VERSION_ID=4081.2.0
BUILD_ID=2024-11-20-1201
"""


def test_info_version_and_end_of_support_are_exported(machine, values) -> None:
    assert values(Os(machine("xeon")).collect()) == {
        'node_os_info{build_id="",id="rocky",id_like="rhel centos fedora",image_id="",image_version="",'
        'name="Rocky Linux",pretty_name="Rocky Linux 9.6 (Blue Onyx)",variant="",variant_id="",'
        'version="9.6 (Blue Onyx)",version_codename="",version_id="9.6"}': 1,
        'node_os_version{id="rocky",id_like="rhel centos fedora",name="Rocky Linux"}': 9.6,
        "node_os_support_end_timestamp_seconds": 1969574400,
    }


@pytest.mark.parametrize(
    ("version", "number"), [("24.04", 24.04), ("12", 12), ("4081.2.0", 4081.2), ("7.", 7)]
)
def test_version_is_a_number_up_to_its_second_dot(values, version: str, number: float) -> None:
    found = values(families({"VERSION_ID": version}))
    assert found['node_os_version{id="",id_like="",name=""}'] == number


@pytest.mark.parametrize("text", [ARCH, "VERSION_ID=rolling\n", "VERSION_ID=0\n", ""])
def test_distribution_without_a_version_has_none(values, text: str) -> None:
    assert not any("version{" in series for series in values(families(parse(text))))


def test_words_need_no_quotes() -> None:
    assert parse(FLATCAR)["VERSION"] == "4081.2.0"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"a \\"b\\" \\$c \\\\ \\`d\\`"', 'a "b" $c \\ `d`'),
        ("'a \\ b'", "a \\ b"),
        ("''", ""),
        ('"é"', "é"),
        ('"a\\nb"', "a\\nb"),
    ],
)
def test_quotes_are_those_of_the_shell(written: str, meant: str) -> None:
    assert parse(f"NAME={written}\n")["NAME"] == meant


def test_first_existing_file_counts(tmp_path: Path, values) -> None:
    vendor, local = tmp_path / "usr/lib/os-release", tmp_path / "etc/os-release"
    collector = Os(Host(rootfs=tmp_path))
    with pytest.raises(SourceAbsentError):
        collector.collect()
    for path, name in ((vendor, "vendor"), (local, "local"), (local, "upgraded")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"ID={name}\n")
        (series,) = values(collector.collect())
        assert f'id="{name}"' in series


@pytest.mark.parametrize(
    "text",
    ["no assignment\n", 'NAME="open\n', "NAME='\n", "=x\n", "1A=x\n"],
)  # fmt: skip
def test_invalid_os_release_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="os-release"):
        list(families(parse(text)))


@pytest.mark.parametrize("line", ["SUPPORT_END=soon", "SUPPORT_END=2026-02-30", "no assignment"])
def test_odd_line_is_left_out(line: str, values) -> None:
    assert values(families(parse(f"ID=x\n{line}\n"))) == values(families(parse("ID=x\n")))
