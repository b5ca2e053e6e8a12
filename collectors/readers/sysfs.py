"""Attributes of devices: small files below sysfs, any of which may be missing, forbidden or out of order by itself."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from collectors.base.sample import CollectorError, SourceAbsentError
from collectors.formats.numerals import parse_int
from collectors.readers.kernelfiles import FILES

T = TypeVar("T")

Listing = Mapping[str, int]
"""What is in a directory: name to inode, in the order of the names. A device that is replaced comes back with another inode."""

_NOT_UTF8 = re.compile("[\udc80-\udcff]+")


def content(path: str) -> str | None:
    """What a file has to say, or None where it is missing or its driver answers with an error (EIO, ENODATA, EAGAIN, ...).

    One read: an attribute has no second page, and a driver that answers EAGAIN would keep a patient reader for ever.
    """
    try:
        return decode(FILES.attribute(path))
    except OSError:
        return None


def attribute(path: str) -> str | None:
    """The content of a file without the white space around it."""
    text = content(path)
    return None if text is None else text.strip()


def number(path: str) -> int | None:
    """The whole number in a file; None too where something else is in it."""
    text = content(path)
    try:
        return None if text is None else parse_int(text.strip())
    except ValueError:
        return None


def decode(raw: bytes) -> str:
    """Text in which each run of bytes that are no UTF-8 is one U+FFFD, as Go replaces them: firmware writes what it likes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _NOT_UTF8.sub("\ufffd", raw.decode("utf-8", "surrogateescape"))


def listing(directory: str | Path) -> Listing:
    """What is in a directory. SourceAbsentError where there is none."""
    try:
        with os.scandir(directory) as found:
            entries = sorted((entry.name, entry.inode()) for entry in found)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceAbsentError(f"no directory {directory}") from error
    except OSError as error:
        raise CollectorError(f"{directory}: {error.strerror}") from error
    return {name: inode for name, inode in entries if name.isascii()}


def listing_optional(directory: str | Path) -> Listing:
    """What is in a directory; nothing where there is none."""
    try:
        return listing(directory)
    except SourceAbsentError:
        return {}


class Derived(Generic[T]):
    """What follows from which devices there are (names, labels, what to read), worked out again when one comes or goes."""

    def __init__(
        self, derive: Callable[[Sequence[Listing]], T], first: str | Path, *others: str | Path
    ) -> None:
        """`derive` gets the listings of these directories, of which only the first has to be there."""
        self._derive = derive
        self._first, self._others = first, others
        self._basis: list[Listing] | None = None
        self._result: T

    def get(self) -> T:
        """The result for the devices of this moment."""
        basis = [listing(self._first), *map(listing_optional, self._others)]
        if basis != self._basis:
            self._result = self._derive(basis)
            self._basis = basis
        return self._result
