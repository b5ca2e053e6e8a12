"""Fields of pages, as several features contribute them."""

from collections.abc import Iterable, Mapping
from typing import Any

Facts = Mapping[str, Any]
"""Fields of a page."""


def joined(parts: Iterable[Facts]) -> dict[str, Any]:
    """Return the fields of several features together."""
    fields: dict[str, Any] = {}
    for part in parts:
        fields |= part
    return fields
