"""Reads many sysfs attributes of one device at once: a network device has two dozen."""

import os
from collections.abc import Iterable

from collectors.interface import guard
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_hex, parse_uint


def read(directory: str, names: Iterable[str]) -> dict[str, str]:
    """Return the text of the attributes that can be read: drivers return an error for unsupported ones.

    Raises SourceAbsentError if the directory does not exist: devices can disappear.
    """
    texts = ((name, sysfs.attribute(f"{directory}/{name}")) for name in names)
    values = {name: text for name, text in texts if text is not None}
    if not values:
        _check(directory)
    return values


def read_optional(directory: str, names: Iterable[str]) -> dict[str, str] | None:
    """Return attributes like `read`; None if the directory does not exist, or cannot be read and is left out."""
    try:
        return read(directory, names)
    except SourceAbsentError:
        return None
    except CollectorError as error:
        guard.skip(error)
        return None


def _check(directory: str) -> None:
    try:
        os.close(os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceAbsentError(f"{directory}: {error.strerror}") from error
    except OSError as error:
        raise CollectorError(f"{directory}: {error.strerror}") from error


def parse_number(text: str) -> int | None:
    """Parse an integer as drivers write it, `-1`, `1500` or `0x1003`; None for anything else, such as `N/A`."""
    try:
        if text.startswith("0x"):
            return parse_hex(text[2:])
        return -parse_uint(text[1:]) if text.startswith("-") else parse_uint(text)
    except ValueError:
        return None
