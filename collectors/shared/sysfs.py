"""Device attributes: small files below sysfs, each of which may be missing, forbidden or failing."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from collectors.interface import guard
from collectors.interface.kernelfiles import FILES
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.shared.formats.numerals import parse_int

T = TypeVar("T")

Listing = Mapping[str, int]
"""A directory's entries: name to inode, ordered by name. A replaced device has another inode."""

_NOT_UTF8 = re.compile("[\udc80-\udcff]+")


def content(path: str) -> str | None:
    """Return a file's content, or None if it is missing or its driver returns an error (EIO, ENODATA, EAGAIN, ...).

    One read only: attributes fit into one, and a driver may return EAGAIN forever.
    """
    try:
        return decode(FILES.attribute(path))
    except OSError:
        return None


def attribute(path: str) -> str | None:
    """Return a file's content without surrounding white space."""
    text = content(path)
    return None if text is None else text.strip()


def number(path: str) -> int | None:
    """Return the integer in a file; None if it is missing, or has other content and is left out."""
    text = content(path)
    try:
        return None if text is None else parse_int(text.strip())
    except ValueError as error:
        guard.skip(f"sysfs: {path}: {error}")
        return None


def decode(raw: bytes) -> str:
    """Decode UTF-8, replacing each run of invalid bytes with one U+FFFD as Go does: firmware may contain anything."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _NOT_UTF8.sub("\ufffd", raw.decode("utf-8", "surrogateescape"))


def listing(directory: str | Path, *, raw: bool = False) -> Listing:
    """List a directory. `raw`: also names that are not UTF-8, with surrogates. Raises SourceAbsentError if it does not exist."""
    try:
        with os.scandir(directory) as scanned:
            entries = sorted((entry.name, entry.inode()) for entry in scanned)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceAbsentError(f"no directory {directory}") from error
    except OSError as error:
        raise CollectorError(f"{directory}: {error.strerror}") from error
    return {name: inode for name, inode in entries if raw or _is_utf8(name)}


def _is_utf8(name: str) -> bool:
    return name.isascii() or not _NOT_UTF8.search(name)


def listing_optional(directory: str | Path) -> Listing:
    """List a directory; empty if it does not exist, or cannot be read and is left out."""
    try:
        return listing(directory)
    except SourceAbsentError:
        return {}
    except CollectorError as error:
        guard.skip(error)
        return {}


class Derived(Generic[T]):
    """A value derived from which devices exist (names, labels, paths), recomputed when one is added or removed."""

    def __init__(
        self,
        derive: Callable[[Sequence[Listing]], T],
        first: str | Path,
        *others: str | Path,
        raw: bool = False,
    ) -> None:
        """`derive` gets the listings of these directories, of which only the first must exist. `raw`: as in `listing`."""
        self._derive = derive
        self._raw = raw
        self._first, self._others = first, others
        self._basis: list[Listing] | None = None
        self._result: T

    def get(self) -> T:
        """Return the value for the current devices."""
        basis = [listing(self._first, raw=self._raw), *map(listing_optional, self._others)]
        if basis != self._basis:
            skipped = guard.skipped()
            self._result = self._derive(basis)
            # What was left out may be readable next time.
            self._basis = basis if guard.skipped() == skipped else None
        return self._result
