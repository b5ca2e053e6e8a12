"""Devices of a mounted Btrfs file system, by ioctl (linux/btrfs.h): sizes and errors."""

import errno
import fcntl
import os
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

from collectors.interface.sample import CollectorError

FS_INFO = 0x8400941F
DEV_INFO = 0xD000941E
DEV_STATS = 0xC4089434
_SIZES = {FS_INFO: 1024, DEV_INFO: 4096, DEV_STATS: 1032}
_PATH = 3072  # offset of the path in btrfs_ioctl_dev_info_args
_ERRORS = ("write", "read", "flush", "corruption", "generation")
_MOST_DEVICES = 4096

Ioctl = Callable[[int, int, bytearray], int]


class BtrfsDevice(NamedTuple):
    """A device of a file system."""

    name: str
    uuid: str
    size: int
    used: int
    errors: dict[str, int]


def devices(point: str, *, ioctl: Ioctl = fcntl.ioctl) -> tuple[str, list[BtrfsDevice]]:
    """Return the UUID of the file system mounted at a directory, and its devices. Raises CollectorError."""
    try:
        descriptor = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _devices(lambda request, argument: ioctl(descriptor, request, argument))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CollectorError(f"{point}: {error.strerror}") from error


def _devices(call: Callable[[int, bytearray], int]) -> tuple[str, list[BtrfsDevice]]:
    argument = bytearray(_SIZES[FS_INFO])
    call(FS_INFO, argument)
    last, count, fsid = struct.unpack_from("=QQ16s", argument)
    found: list[BtrfsDevice] = []
    for number in range(min(last, _MOST_DEVICES) + 1):
        if len(found) < count:
            found += _device(call, number)
    return str(uuid.UUID(bytes=fsid)), found


def _device(call: Callable[[int, bytearray], int], number: int) -> Iterator[BtrfsDevice]:
    argument = bytearray(_SIZES[DEV_INFO])
    struct.pack_into("=Q", argument, 0, number)
    try:
        call(DEV_INFO, argument)
    except OSError as error:
        if error.errno == errno.ENODEV:  # numbers have gaps
            return
        raise
    _, identity, used, size = struct.unpack_from("=Q16sQQ", argument)
    path = bytes(argument[_PATH:]).partition(b"\0")[0].decode(errors="replace")
    counters = bytearray(_SIZES[DEV_STATS])
    struct.pack_into("=QQ", counters, 0, number, len(_ERRORS))
    call(DEV_STATS, counters)
    errors = dict(zip(_ERRORS, struct.unpack_from("=5Q", counters, 24), strict=True))
    yield BtrfsDevice(path.rpartition("/")[2], str(uuid.UUID(bytes=identity)), size, used, errors)
