"""YAML as text, lists and mappings: no implicit numbers or dates, no duplicate keys."""

import re
from collections.abc import Sequence
from typing import Any

import yaml
from yaml import YAMLError

from plimsoll.text import SentenceError

__all__ = ["Finder", "MalformedError", "YAMLError", "load", "sentence"]

_QUOTED = re.compile(r"'[^'<>,\s]{2,}'")
"""Text that a YAML error quotes from the document, except single characters and the parser's own `<names>`."""


class MalformedError(SentenceError):
    """A text is not such YAML. The message has the position and reason but quotes nothing, since there may be keys and passwords."""


class _Loader(yaml.BaseLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} appears twice", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def load(text: str) -> Any:
    """Return the one document of a text; None if it is empty. Raises MalformedError."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a BaseLoader makes nothing but text, lists and mappings)
    except YAMLError as error:
        raise MalformedError(sentence(error)) from error
    except RecursionError as error:
        raise MalformedError("nested too deeply") from error


class Finder:
    """Finds positions of values in a text that `load` accepts. The text is parsed again at the first use."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._root: yaml.Node | None = None

    def where(self, place: Sequence[str | int]) -> str:
        """Return line and column, from 1, of the value at this path of keys and indices, or of its closest existing parent."""
        if self._root is None:
            self._root = yaml.compose(self._text, _Loader)
        node = self._root
        for step in place:
            if (found := _child(node, step)) is None:
                break
            node = found
        return _spelled(node.start_mark) if node is not None else ""


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    match node, step:
        case yaml.MappingNode(value=pairs), str():
            return next((found for key, found in pairs if key.value == step), None)
        case yaml.SequenceNode(value=items), int():
            return items[step] if step < len(items) else None
        case _:
            return None


def _spelled(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def sentence(error: YAMLError) -> str:
    """Return position and reason of a YAML error. The error's own text quotes the document."""
    match error:
        case yaml.MarkedYAMLError(problem=problem, problem_mark=mark) if mark is not None:
            said = _QUOTED.sub("...", problem or "it cannot be read")
            return f"{_spelled(mark)}: {said}"
        case yaml.reader.ReaderError(position=position):
            return f"a character at position {position} that YAML does not allow"
        case _:
            return "it cannot be read"
