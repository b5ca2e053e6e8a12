"""Edits the text of a KubeSchedulerConfiguration, so that comments, order and style of the rest stay."""

from typing import Any

import yaml

from evaluator.tools.configure_scheduler.staticpod import ManifestError, last_line
from plimsoll import strictyaml

_KEY = "extenders"


def edited(text: str, result: dict[str, Any]) -> str:
    """Return a valid YAML text with the extenders of `result`; written anew if it cannot be edited line by line."""
    if _reads_as(text, result):
        return text
    try:
        found = _edited(text, result)
    except ManifestError:
        found = ""
    return found if _reads_as(found, result) else str(yaml.safe_dump(result, sort_keys=False))


def _edited(text: str, result: dict[str, Any]) -> str:
    lines = text.splitlines(keepends=True)
    root = yaml.compose(text, yaml.SafeLoader)
    if not lines or not lines[-1].endswith("\n") or not isinstance(root, yaml.MappingNode):
        return ""
    new = result[_KEY]
    node = next((value for key, value in root.value if key.value == _KEY), None)
    if node is None:
        return text + str(yaml.safe_dump({_KEY: new}, sort_keys=False))
    if not isinstance(node, yaml.SequenceNode) or node.flow_style or not node.value:
        return ""
    old = strictyaml.load_json(text)[_KEY]
    for item, entry in zip(node.value, old, strict=True):
        if entry not in new[:-1]:
            first, last = item.start_mark.line, last_line(item)
            lines[first : last + 1] = [""] * (last + 1 - first)
    indent = " " * node.start_mark.column
    added = yaml.safe_dump([new[-1]], sort_keys=False).splitlines(keepends=True)
    end = last_line(node)
    lines[end] += "".join(indent + line for line in added)
    return "".join(lines)


def _reads_as(text: str, result: dict[str, Any]) -> bool:
    try:
        return bool(strictyaml.load_json(text) == result)
    except strictyaml.MalformedError:
        return False
