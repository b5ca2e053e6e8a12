"""Many attributes of one device out of its directory in sysfs, for one look-up of the path: a network device has two dozen."""

import errno
import os
from collections.abc import Iterable

from collectors.hexadecimals import parse_hex
from collectors.numerals import parse_uint
from collectors.sample import CollectorError, SourceAbsentError
from collectors.sysfs import decode

_PAGE = 4096  # sysfs never has more than one page in a file


def read(directory: str, names: Iterable[str]) -> dict[str, str]:
    """The text of those attributes that have one: a driver that knows no answer says so with an error.

    SourceAbsentError where there is no such directory: devices go away.
    """
    try:
        folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        absent = error.errno in {errno.ENOENT, errno.ENOTDIR}
        kind = SourceAbsentError if absent else CollectorError
        raise kind(f"{directory}: {error.strerror}") from error
    try:
        texts = ((name, _text(name, folder)) for name in names)
        return {name: text for name, text in texts if text is not None}
    finally:
        os.close(folder)


def _text(name: str, folder: int) -> str | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        return decode(os.read(descriptor, _PAGE)).strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def parse_number(text: str) -> int | None:
    """A whole number as drivers write it, `-1`, `1500` or `0x1003`; None for all else, such as `N/A`."""
    try:
        if text.startswith("0x"):
            return parse_hex(text[2:])
        return -parse_uint(text[1:]) if text.startswith("-") else parse_uint(text)
    except ValueError:
        return None
