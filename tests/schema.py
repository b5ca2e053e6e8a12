"""The documented schema of the evaluator's pages, docs/pages.schema.json."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "pages.schema.json").read_text())
for _object in _SCHEMA["$defs"].values():
    _object["additionalProperties"] = False


def check(page: object, kind: str) -> None:
    """Fail if a page has not the fields and types of its kind, or has others."""
    validator: Any = Draft202012Validator({**_SCHEMA, "$ref": f"#/$defs/{kind}"})
    errors = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(page)]
    assert errors == []
