"""The plugin reads fields that the evaluator's pages have: it shares no types with the evaluator."""

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = {"history.py": {"after", "continued"}}
"""A parameter of its queries, and a field that it adds to pages."""


def known():
    """Return the names of all fields of the pages."""
    schemas = json.loads((ROOT / "docs" / "pages.schema.json").read_text())["$defs"]
    return {name for schema in schemas.values() for name in schema["properties"]}


def read_by(module):
    """Yield the names by which a module reads fields."""
    for node in ast.walk(ast.parse((ROOT / "kubectl_plimsoll" / module).read_text())):
        match node:
            case (
                ast.Subscript(slice=ast.Constant(str(name)))
                | ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(str(name)), *_])
                | ast.Compare(left=ast.Constant(str(name)), ops=[ast.In()])
            ):
                yield name


@pytest.mark.parametrize("module", ["views.py", "pods.py", "history.py"])
def test_plugin_reads_fields_that_pages_have(module):
    read = {*read_by(module)}
    assert read
    assert read - known() == OWN.get(module, set())
