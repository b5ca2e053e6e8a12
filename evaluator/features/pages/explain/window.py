"""Which entries of a list a page shows: a namespace, a search, a state, and a page number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

PAGE = 200
"""Entries on one page."""


@dataclass(frozen=True, slots=True)
class Window:
    """`search`: part of a name; `state`: only entries in it; `page`: from 1; `size`: entries of a page.

    `namespace`: the only one whose objects are listed and counted; empty for all.
    """

    search: str = ""
    state: str = ""
    page: int = 1
    size: int = PAGE
    namespace: str = ""

    def of(self, entries: Sequence[T]) -> Sequence[T]:
        """Return the entries of the page; the last page if there are fewer."""
        begin = (self._within(len(entries)) - 1) * self.size
        return entries[begin : begin + self.size]

    def covers(self, namespace: str) -> bool:
        """Return whether objects of a namespace are listed."""
        return self.namespace in {"", namespace}

    @property
    def skipped(self) -> int:
        """How many entries precede those of the page, if there are as many."""
        return (self.page - 1) * self.size

    def described(self, found: int, total: int) -> dict[str, Any]:
        """Return the window as data: `found` entries match the search and state, out of `total`."""
        return {
            "search": self.search,
            "state": self.state,
            "page": self._within(found),
            "pages": self._pages(found),
            "found": found,
            "total": total,
        }

    def _pages(self, found: int) -> int:
        return max(1, math.ceil(found / self.size))

    def _within(self, found: int) -> int:
        return max(1, min(self.page, self._pages(found)))
