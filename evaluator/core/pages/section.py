"""Pages that a feature adds below a path of its own, and a page as data."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from evaluator.core.page_fields import Fields
from evaluator.core.pages.window import Window

LONGEST_PATH = 2_000
"""Longest path that is decoded; a namespace and a name have at most 506 characters."""
SHOWN = 400
"""Characters of a name shown in an error; names in Kubernetes are shorter."""
Entries = Iterable[tuple[str, Fields]]
"""Names, and what is known of each."""


class PageError(Exception):
    """A page that cannot be made; the message is for the client."""

    def __init__(self, sentence: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Report:
    """A page as data: its fields, and `objects` and `arrays` for those that are UNSET. Entries may be made while they are read."""

    head: Fields
    objects: Mapping[str, Entries] = field(default_factory=dict)
    arrays: Mapping[str, Iterable[Fields]] = field(default_factory=dict)


class PageView(NamedTuple):
    """One page of a section: its template, title, what builds its report, and the object that it is about."""

    template: str
    title: str
    build: Callable[[], Awaitable[Report]]
    subject: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """Pages of a feature below `/<name>`, with an entry in the navigation.

    `listed` makes the page of the list, `one` that of an object by namespace and name. `query` is the parameter of
    /explain that selects an object, `explained` its report as JSON for a name, or for all objects if that is empty.
    """

    name: str
    title: str
    shown: bool
    """Whether the feature is on; if not, its pages say so."""
    templates: Path
    listed: Callable[[Window], PageView]
    one: Callable[[str, Window], PageView]
    query: str
    explained: Callable[[str], Awaitable[Report]]
    see: Mapping[str, str]
    """What /explain says about its addresses."""
    parameters: Sequence[str] = ()
    """Names of its own filters in the query; a `Window` has their values."""
