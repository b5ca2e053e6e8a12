import errno
import struct
import uuid

import pytest

from collectors.btrfs.btrfsdevices import DEV_INFO, DEV_STATS, FS_INFO, BtrfsDevice, devices
from collectors.interface.sample import CollectorError

FS, DEVICE = uuid.UUID(int=1), uuid.UUID(int=2)


def kernel(_descriptor: int, request: int, argument: bytearray) -> int:
    """A file system whose only device has the number 3; the layouts are those of linux/btrfs.h."""
    assert (request >> 16) & 0x3FFF == len(argument), "the size is part of the request"
    if request == FS_INFO:
        struct.pack_into("=QQ16s", argument, 0, 3, 1, FS.bytes)
        return 0
    (number,) = struct.unpack_from("=Q", argument)
    if number != 3:
        raise OSError(errno.ENODEV, "No such device")
    if request == DEV_INFO:
        struct.pack_into("=Q16sQQ", argument, 0, number, DEVICE.bytes, 400, 1000)
        argument[3072:3081] = b"/dev/sdx1"
    if request == DEV_STATS:
        struct.pack_into("=QQQ5Q", argument, 0, number, 5, 0, 1, 2, 3, 4, 5)
    return 0


def test_devices_sizes_and_errors_are_read(tmp_path) -> None:
    errors = {"write": 1, "read": 2, "flush": 3, "corruption": 4, "generation": 5}
    expected = BtrfsDevice("sdx1", str(DEVICE), 1000, 400, errors)
    assert devices(str(tmp_path), ioctl=kernel) == (str(FS), [expected])


def test_other_file_system_is_an_error(tmp_path) -> None:
    with pytest.raises(CollectorError, match="Inappropriate ioctl"):
        devices(str(tmp_path))


def test_missing_mount_point_is_an_error(tmp_path) -> None:
    with pytest.raises(CollectorError, match="No such file"):
        devices(str(tmp_path / "gone"))
