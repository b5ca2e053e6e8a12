import errno
import struct
import uuid

import pytest

from collectors.btrfs import DEV_INFO, DEV_STATS, FS_INFO, Btrfs, BtrfsDevice, query_devices, ratio
from collectors.interface.sample import CollectorError, SourceAbsentError

UUID = "0abb23a9-579b-43e6-ad30-227ef47fcb9d"
FS = f"sys/fs/btrfs/{UUID}"
FSID, DISK = uuid.UUID(int=1), uuid.UUID(int=2)
FILES = {
    f"{FS}/label": "data\n",
    f"{FS}/commit_stats": "commits 25\nlast_commit_ms 1500\nmax_commit_ms 51462\ntotal_commit_ms 90000\n",
    f"{FS}/devices/sda/size": "2048\n",
    f"{FS}/devices/sdb/size": "4096\n",
    f"{FS}/allocation/global_rsv_size": "16777216\n",
    f"{FS}/allocation/data/bytes_reserved": "10\n",
    f"{FS}/allocation/data/raid1/used_bytes": "100\n",
    f"{FS}/allocation/data/raid1/total_bytes": "300\n",
    "sys/fs/btrfs/features/raid1c34": "0\n",
    "proc/1/mountinfo": "29 1 0:25 / /srv rw,relatime - btrfs /dev/sda rw\n30 1 8:2 / / rw - ext4 /dev/sdc2 rw\n",
}
DEVICE = BtrfsDevice(
    "sda", "dddddddd-0000-0000-0000-000000000001", 1000, 400, {"write": 3, "read": 0}
)


def refuse(_point: str):
    raise CollectorError("Permission denied")


def test_space_and_commits_are_exported(plant, values) -> None:
    fs = f'{{uuid="{UUID}"}}'
    raid1 = f'{{uuid="{UUID}",block_group_type="data",mode="raid1"}}'
    assert values(Btrfs(plant(FILES), query=refuse).collect()) == {
        f'node_btrfs_info{{uuid="{UUID}",label="data"}}': 1,
        f"node_btrfs_global_rsv_size_bytes{fs}": 16777216,
        f"node_btrfs_commits_total{fs}": 25,
        f"node_btrfs_last_commit_seconds{fs}": 1.5,
        f"node_btrfs_max_commit_seconds{fs}": 51.462,
        f"node_btrfs_commit_seconds_total{fs}": 90,
        f'node_btrfs_reserved_bytes{{uuid="{UUID}",block_group_type="data"}}': 10,
        f"node_btrfs_used_bytes{raid1}": 100,
        f"node_btrfs_size_bytes{raid1}": 300,
        f"node_btrfs_allocation_ratio{raid1}": 2,
        f'node_btrfs_device_size_bytes{{uuid="{UUID}",device="sda"}}': 1 << 20,
        f'node_btrfs_device_size_bytes{{uuid="{UUID}",device="sdb"}}': 2 << 20,
    }


def test_devices_of_a_mounted_file_system_have_errors_and_unused_bytes(plant, values) -> None:
    asked = []

    def query(point: str) -> tuple[str, list[BtrfsDevice]]:
        asked.append(point)
        return UUID, [DEVICE]

    host = plant(FILES)
    found = values(Btrfs(host, query=query).collect())
    device = f'device="sda",btrfs_dev_uuid="{DEVICE.uuid}"'
    assert {series: value for series, value in found.items() if "btrfs_device_" in series} == {
        f'node_btrfs_device_size_bytes{{uuid="{UUID}",{device}}}': 1000,
        f'node_btrfs_device_unused_bytes{{uuid="{UUID}",{device}}}': 600,
        f'node_btrfs_device_errors_total{{uuid="{UUID}",type="write",{device}}}': 3,
        f'node_btrfs_device_errors_total{{uuid="{UUID}",type="read",{device}}}': 0,
    }
    assert asked == [f"{host.rootfs}/srv"]


@pytest.mark.parametrize(
    ("profile", "devices", "expected"),
    [
        ("single", 1, 1),
        ("dup", 1, 2),
        ("raid1c4", 4, 4),
        ("raid5", 4, 4 / 3),
        ("raid6", 4, 2),
        ("raid6", 2, None),
        ("raid99", 2, None),
    ],
)
def test_ratio_of_a_profile(profile: str, devices: int, expected: float | None) -> None:
    assert ratio(profile, devices) == expected


def test_machine_without_btrfs_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Btrfs(plant({})).collect())


def kernel(_descriptor: int, request: int, argument: bytearray) -> int:
    """A file system whose only device has the number 3; the layouts are those of linux/btrfs.h."""
    assert (request >> 16) & 0x3FFF == len(argument), "the size is part of the request"
    if request == FS_INFO:
        struct.pack_into("=QQ16s", argument, 0, 3, 1, FSID.bytes)
        return 0
    (number,) = struct.unpack_from("=Q", argument)
    if number != 3:
        raise OSError(errno.ENODEV, "No such device")
    if request == DEV_INFO:
        struct.pack_into("=Q16sQQ", argument, 0, number, DISK.bytes, 400, 1000)
        argument[3072:3081] = b"/dev/sdx1"
    if request == DEV_STATS:
        struct.pack_into("=QQQ5Q", argument, 0, number, 5, 0, 1, 2, 3, 4, 5)
    return 0


def test_devices_sizes_and_errors_are_read(tmp_path) -> None:
    errors = {"write": 1, "read": 2, "flush": 3, "corruption": 4, "generation": 5}
    expected = BtrfsDevice("sdx1", str(DISK), 1000, 400, errors)
    assert query_devices(str(tmp_path), ioctl=kernel) == (str(FSID), [expected])


def test_other_file_system_is_an_error(tmp_path) -> None:
    with pytest.raises(CollectorError, match="Inappropriate ioctl"):
        query_devices(str(tmp_path))


def test_missing_mount_point_is_an_error(tmp_path) -> None:
    with pytest.raises(CollectorError, match="No such file"):
        query_devices(str(tmp_path / "gone"))
