"""What test modules of collectors declare for tests of all parsers: `PARSERS` and `SAMPLES`, by name."""

import importlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def declared(variable: str) -> dict[str, Any]:
    """Return the items of this variable in all test modules; their names differ."""
    found: dict[str, Any] = {}
    for path in sorted(HERE.rglob("test_*.py")):
        if f"\n{variable} = {{" in path.read_text():
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            items = getattr(importlib.import_module(name), variable)
            assert not found.keys() & items.keys(), name
            found |= items
    return found
