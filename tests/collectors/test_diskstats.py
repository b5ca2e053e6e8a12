import os
from pathlib import Path

import pytest

from collectors import diskstats
from collectors.diskstats import DiskStats, Options, diskinfo, families, parse
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.shared.formats.patterns import DeviceFilter

PARSERS = {
    "diskinfo": lambda text: diskinfo.families(
        [diskinfo.Disk("sda", "8", "0", diskinfo.parse_properties(text), rotational=False)]
    ),
    "diskstats": lambda text: diskstats.families(
        diskstats.parse(text, DeviceFilter("", "").ignores)
    ),
}

SAMPLES = {
    "diskstats": (
        "proc/diskstats",
        lambda t: diskstats.families(diskstats.parse(t, DeviceFilter("", "").ignores)),
    ),
    "udev": (
        "run/udev/data/b8:0",
        lambda t: diskinfo.families(
            [diskinfo.Disk("sda", "8", "0", diskinfo.parse_properties(t), False)]
        ),
    ),
}


EVERY = DeviceFilter("", "").ignores
OLD = "   8       0 sda 25354637 34367663 1003346126 18492372 28444756 11134226 505697032 63877960 0 9653880 82621804\n"


@pytest.fixture
def xeon(machine, values) -> dict[str, float]:
    found: dict[str, float] = values(DiskStats(machine("xeon"), Options()).collect())
    return found


def test_every_column_is_in_base_units(xeon) -> None:
    columns = {
        series.split("{")[0].removeprefix("node_disk_"): value
        for series, value in xeon.items()
        if series.endswith('{device="nvme0n1"}')
    }
    assert (
        columns
        == {
            "reads_completed_total": 44120331,
            "reads_merged_total": 1201,
            "read_bytes_total": 5501203344 * 512,
            "read_time_seconds_total": 8800.123,
            "writes_completed_total": 91200331,
            "writes_merged_total": 80012,
            "written_bytes_total": 9912003311 * 512,
            "write_time_seconds_total": 22001.2,
            "io_now": 0,
            "io_time_seconds_total": 31200.441,
            "io_time_weighted_seconds_total": 30801.323,
            "discards_completed_total": 120033,
            "discards_merged_total": 0,
            "discarded_sectors_total": 8801200331,
            "discard_time_seconds_total": 9.120000000000001,  # as in node_exporter: times 0.001, not divided by 1000
            "flush_requests_total": 0,
            "flush_requests_time_seconds_total": 0,
        }
    )


def test_partitions_and_loops_are_excluded(xeon) -> None:
    devices = {s.split('"')[1] for s in xeon if s.startswith("node_disk_io_now")}
    assert devices == {"sda", "nvme0n1", "dm-0", "sr0"}


@pytest.mark.parametrize(
    ("options", "devices"),
    [
        (Options(diskstats_include="^sda"), {"sda", "sda1"}),
        (Options(diskstats_exclude="^(sr|loop|dm-|nvme)"), {"sda", "sda1"}),
        (Options(diskstats_include="^sda", diskstats_exclude="1$"), {"sda"}),
        (Options(diskstats_include="^xyz"), set()),
    ],
)
def test_devices_can_be_chosen(machine, values, options: Options, devices: set[str]) -> None:
    found = values(DiskStats(machine("xeon"), options).collect())
    assert {s.split('"')[1] for s in found if s.startswith("node_disk_io_now")} == devices


def test_older_kernels_have_fewer_columns(values) -> None:
    found = values(families(parse(OLD, EVERY)))
    assert len(found) == 11
    discards = OLD.rstrip() + " 68851 0 1925173784 11130\n"
    assert len(values(families(parse(discards, EVERY)))) == 15


def test_short_partition_lines_of_linux_2_6_are_ignored(values) -> None:
    assert values(families(parse("   8    1 sda1 35486 38030 38030 38030\n", EVERY))) == {}


def test_info_of_a_disk_is_exported(xeon) -> None:
    assert {s for s in xeon if s.startswith("node_disk_info")} == {
        'node_disk_info{device="sda",major="8",minor="0",path="pci-0000:00:17.0-ata-1",wwn="0x5000c500a1b2c3d4",'
        'model="ST4000NM0035-1V4107",serial="ZC1A0B2C",revision="TN03",rotational="1"}',
        'node_disk_info{device="nvme0n1",major="259",minor="0",path="pci-0000:65:00.0-nvme-1",'
        'wwn="eui.01000000000000005cd2e4a1b2c35451",model="ACME DC P5520",serial="PHAC1",revision="9CV10200",rotational="0"}',
        'node_disk_info{device="dm-0",major="253",minor="0",path="",wwn="",model="",serial="",revision="",rotational="0"}',
        'node_disk_info{device="sr0",major="11",minor="0",path="",wwn="",model="",serial="",revision="",rotational="0"}',
    }


def test_ata_disks_have_more_metrics(xeon) -> None:
    assert {s: v for s, v in xeon.items() if "_ata_" in s} == {
        'node_disk_ata_write_cache{device="sda"}': 1,
        'node_disk_ata_write_cache_enabled{device="sda"}': 0,
        'node_disk_ata_rotation_rate_rpm{device="sda"}': 7200,
    }


def test_file_system_and_device_mapper_info_are_exported(xeon) -> None:
    assert {s for s in xeon if "filesystem_info" in s or "mapper_info" in s} == {
        'node_disk_filesystem_info{device="dm-0",type="ext4",usage="filesystem",'
        'uuid="2f6b1c7e-5a40-4d8e-9b1a-7c3d2e1f0a9b",version="1.0"}',
        'node_disk_device_mapper_info{device="dm-0",name="vg0-root",'
        'uuid="LVM-k3Q0aZ1bY2cX3dW4eV5fU6gT7hS8iR9jwxyzabcdef0123456789ABCDEFGHIJKL",'
        'vg_name="vg0",lv_name="root",lv_layer=""}',
    }


class Node:
    """A machine with one disk in udev's database."""

    def __init__(self, root: Path) -> None:
        self.host = Host(procfs=root, sysfs=root / "sys", udev=root / "udev")
        self.host.udev.mkdir()
        (root / "diskstats").write_text(OLD)

    def tell(self, properties: str, *, at: int) -> None:
        """Update the disk's udev record, at this second."""
        (self.host.udev / ".new").write_text(properties)
        (self.host.udev / ".new").rename(self.host.udev / "b8:0")
        os.utime(self.host.udev, (at, at))


def model(found: dict[str, float]) -> str:
    (series,) = (series for series in found if series.startswith("node_disk_info"))
    return series.split('model="')[1].split('"')[0]


def test_swapped_disk_is_noticed(tmp_path: Path, values) -> None:
    node = Node(tmp_path)
    collector = DiskStats(node.host, Options(), clock=lambda: 5000.0)
    for number, name in enumerate(["one", "two"]):
        node.tell(f"E:ID_MODEL={name}\n", at=1000 + number)
        assert model(values(collector.collect())) == name


def test_constant_attributes_are_read_once(tmp_path: Path, values) -> None:
    node = Node(tmp_path)
    collector = DiskStats(node.host, Options(), clock=lambda: 5000.0)
    node.tell("E:ID_MODEL=one\n", at=1000)
    assert model(values(collector.collect())) == "one"
    node.tell("E:ID_MODEL=two\n", at=1000)
    assert model(values(collector.collect())) == "one"


def test_change_within_a_clock_tick_is_noticed(tmp_path: Path, values) -> None:
    node = Node(tmp_path)
    collector = DiskStats(node.host, Options(), clock=lambda: 1000.004)
    for name in ("one", "two"):
        node.tell(f"E:ID_MODEL={name}\n", at=1000)
        assert model(values(collector.collect())) == name


def test_new_disk_is_described_without_udev_too(tmp_path: Path, values) -> None:
    (tmp_path / "diskstats").write_text(OLD)
    collector = DiskStats(Host(procfs=tmp_path, sysfs=tmp_path, udev=tmp_path / "none"), Options())
    assert model(values(collector.collect())) == ""
    (tmp_path / "diskstats").write_text(OLD + OLD.replace("sda", "cciss/c0d0"))
    rotational = tmp_path / "block/cciss!c0d0/queue/rotational"
    rotational.parent.mkdir(parents=True)
    rotational.write_text("1\n")
    found = values(collector.collect())
    assert {s.split('rotational="')[1][0] for s in found if 'device="cciss/c0d0",major' in s} == {
        "1"
    }


def test_non_numeric_ata_properties_are_absent(tmp_path: Path, values) -> None:
    node = Node(tmp_path)
    node.tell("E:ID_ATA=1\nE:ID_ATA_WRITE_CACHE=yes\nE:ID_ATA_ROTATION_RATE_RPM=0\n", at=1000)
    found = values(DiskStats(node.host, Options()).collect())
    assert {s for s in found if "_ata_" in s} == {'node_disk_ata_rotation_rate_rpm{device="sda"}'}


def test_missing_file_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(DiskStats(Host(procfs=tmp_path), Options()).collect())


@pytest.mark.parametrize(
    "text", ["8 0\n", OLD.replace("25354637", "x"), OLD.replace("   8 ", "  -8 "), OLD.replace("505697032", "5.5")]
)  # fmt: skip
def test_invalid_diskstats_are_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="diskstats"):
        list(parse(text, EVERY))
