"""The status of a policy as some replica last wrote it. It can be edited by hand: fields of other types are left out."""

from collections.abc import Mapping
from typing import Any

_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_MOST_CONDITIONS = 20


def shown(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return compliance, message and conditions."""
    conditions = status.get("conditions")
    listed = conditions[:_MOST_CONDITIONS] if isinstance(conditions, list) else []
    return {
        "compliance": _text(status.get("compliance")),
        "message": _text(status.get("message")),
        "conditions": [
            {field: _text(one.get(field)) for field in _CONDITION}
            for one in listed
            if isinstance(one, dict)
        ],
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
