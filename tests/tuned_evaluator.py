"""Runs plimsoll-evaluator with smaller limits than its constants, so that tests reach them quickly."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Any

from evaluator.config import Settings
from evaluator.main import main


def tuned(**changes: Any) -> tuple[str, ...]:
    """Arguments for `python -P` that replace `-m evaluator`.

    `changes` are values for fields of Settings that have no flag; for `limits` and `agent_limits`, a dict of their fields.
    """
    return (__file__, json.dumps(changes))


def retuned(command: Sequence[str], **changes: Any) -> tuple[str, ...]:
    """Return the command `python -P -m evaluator [flag...]` with these changes, as of `tuned`."""
    python, _safe, _module, name, *flags = command
    assert name == "evaluator", command
    return (python, "-P", *tuned(**changes), *flags)


def settings_type(changes: dict[str, Any]) -> type[Settings]:
    """Settings with these values as defaults."""
    fields: list[Any] = []
    for field in dataclasses.fields(Settings):
        if field.name in changes:
            value = changes[field.name]
            if isinstance(value, dict):
                value = dataclasses.replace(field.default, **value)  # type: ignore[type-var]
            fields.append((field.name, type(value), dataclasses.field(default=value)))
    assert len(fields) == len(changes), changes
    return dataclasses.make_dataclass(
        "TunedSettings", fields, bases=(Settings,), frozen=True, kw_only=True
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], settings_type=settings_type(json.loads(sys.argv[1]))))
