"""One page as data, from which both its JSON and its HTML are made."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

LONGEST_PATH = 2_000
"""Longest path that is decoded; a namespace and a name have at most 506 characters."""
SHOWN = 400
"""Characters of a name shown in an error; names in Kubernetes are shorter."""

Entries = Iterable[tuple[str, Mapping[str, Any]]]
"""Names, and what is known of each."""


class PageError(Exception):
    """A page that cannot be made; the message is for the client."""

    def __init__(self, sentence: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Report:
    """A JSON object: the fields of `head`, then `objects` by name and `arrays`. Their entries may be made while they are read."""

    head: Mapping[str, Any]
    objects: Mapping[str, Entries] = field(default_factory=dict)
    arrays: Mapping[str, Iterable[Mapping[str, Any]]] = field(default_factory=dict)
