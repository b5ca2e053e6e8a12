"""Which entries of a list a page shows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from evaluator.core.page_fields import Fields

T = TypeVar("T")

PAGE = 200
"""Entries on one page."""


class ShownWindow(Fields):
    """The entries of a list that a page shows: one of `pages` with the `found` entries, out of `total`."""

    search: str
    state: str
    page: int
    pages: int
    found: int
    total: int


@dataclass(frozen=True, slots=True)
class Window:
    """Which entries of a list a page shows.

    `search`: part of a name; `state`: only entries in it; `page`: from 1; `size`: entries of a page; `namespace`: the only
    one whose objects are listed and counted, empty for all.
    """

    search: str = ""
    state: str = ""
    page: int = 1
    size: int = PAGE
    namespace: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    """The values of further parameters that a section has."""

    def shown(self, entries: Sequence[T]) -> Sequence[T]:
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

    def described(self, found: int, total: int) -> "ShownWindow":
        """Return the window as data: `found` entries match the search and state, out of `total`."""
        return ShownWindow(
            search=self.search,
            state=self.state,
            page=self._within(found),
            pages=self._pages(found),
            found=found,
            total=total,
        )

    def _pages(self, found: int) -> int:
        return max(1, math.ceil(found / self.size))

    def _within(self, found: int) -> int:
        return max(1, min(self.page, self._pages(found)))
