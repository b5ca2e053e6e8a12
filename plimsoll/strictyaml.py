"""YAML as plain text, lists and mappings: no value is guessed to be a number or a date, and no key may come twice."""

import re
from typing import Any

import yaml
from yaml import YAMLError

from plimsoll.sentences import SentenceError

__all__ = ["MalformedError", "YAMLError", "load", "sentence"]

_QUOTED = re.compile(r"'[^'<>,\s]{2,}'")
"""What a parser's words quote of the text, but for single characters and its own `<names>` of what it met."""


class MalformedError(SentenceError):
    """A text that is no such YAML. It says where and why, and quotes nothing: there may be keys and passwords."""


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
    """The one document of a text; None for an empty one. MalformedError where it is none."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a BaseLoader makes nothing but text, lists and mappings)
    except YAMLError as error:
        raise MalformedError(sentence(error)) from error
    except RecursionError as error:
        raise MalformedError("nested too deeply") from error


def sentence(error: YAMLError) -> str:
    """Where and why a text cannot be read. The error's own words show the line."""
    match error:
        case yaml.MarkedYAMLError(problem=problem, problem_mark=mark) if mark is not None:
            said = _QUOTED.sub("...", problem or "it cannot be read")
            return f"line {mark.line + 1}, column {mark.column + 1}: {said}"
        case yaml.reader.ReaderError(position=position):
            return f"a character at position {position} that YAML does not allow"
        case _:
            return "it cannot be read"
