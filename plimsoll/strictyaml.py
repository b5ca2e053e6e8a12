"""Strict YAML: no duplicate keys, a bounded number of nodes. Values are text (`load`) or those of JSON (`load_json`)."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import yaml
from yaml import YAMLError

from plimsoll.text import SentenceError

__all__ = [
    "Finder",
    "MalformedError",
    "YAMLError",
    "load",
    "load_all_json",
    "load_json",
    "sentence",
]

_MOST_REPEATED = 100_000
"""Nodes that aliases may add to those that the text contains."""
_MOST_DIGITS = 400
"""Of an integer. A double has fewer; parsing takes time quadratic in the digits."""
_MERGE = "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_QUOTED = re.compile(r"'[^'<>,\s]{2,}'")
"""Text that a YAML error quotes from the document, except single characters and the parser's own `<names>`."""
_NOT_JSON = (AttributeError, LookupError, OverflowError, TypeError, ValueError)
"""Raised by PyYAML for a tag that does not match its text, as in `!!int ""`, and by `json.dumps`."""


class MalformedError(SentenceError):
    """A text is not such YAML. The message has the position and reason but quotes only keys: values may be passwords."""


class _Strict(yaml.BaseLoader):
    """Rejects duplicate keys, as `kubectl` does, and aliases of aliases that stand for too many nodes."""

    def __init__(self, text: str | bytes) -> None:
        super().__init__(text)
        self._most = len(text) + _MOST_REPEATED
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return a node. An alias counts as all nodes that it repeats."""
        node: yaml.Node | None = super().compose_node(parent, index)
        if isinstance(node, yaml.CollectionNode):
            pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
            size = 1 + sum(self._sizes.get(id(part), 1) for pair in pairs for part in pair)
            if size > self._most:
                raise _error("its aliases repeat too much", node)
            self._sizes[id(node)] = size
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    raise _error(f"{key.value} appears twice", key)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class _JsonTypes(_Strict, yaml.SafeLoader):
    """Constructs JSON types. A date stays text, as in kubectl and the API server."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > _MOST_DIGITS:
            raise _error("a number of too many digits", node)
        return int(super().construct_yaml_int(node))


_JsonTypes.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_JsonTypes.add_constructor("tag:yaml.org,2002:int", _JsonTypes.construct_yaml_int)


def _error(problem: str, node: yaml.Node) -> YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def load(text: str) -> Any:
    """Return the one document of a text as text, lists and mappings; None if it is empty. Raises MalformedError."""
    with _malformed():
        return yaml.load(text, _Strict)  # noqa: S506 (a BaseLoader constructs only text, lists and mappings)


def load_json(text: str | bytes) -> Any:
    """Return the one document of a text with the types of JSON; None if it is empty. Raises MalformedError."""
    with _malformed():
        return _as_json(yaml.load(text, _JsonTypes), allow_nan=False)  # noqa: S506 (a SafeLoader)


def load_all_json(text: str | bytes, *, allow_nan: bool = False) -> Iterator[Any]:
    """Yield each document of a text with the types of JSON. Raises MalformedError when it reaches the error.

    `allow_nan`: also yield infinity and NaN, for callers that report them by the field that has them.
    """
    with _malformed():
        for document in yaml.load_all(text, _JsonTypes):
            yield _as_json(document, allow_nan=allow_nan)


def _as_json(document: Any, *, allow_nan: bool) -> Any:
    return json.loads(json.dumps(document, allow_nan=allow_nan))  # keys become text


@contextmanager
def _malformed() -> Iterator[None]:
    try:
        yield
    except YAMLError as error:
        raise MalformedError(sentence(error)) from error
    except RecursionError as error:
        raise MalformedError("nested too deeply") from error
    except _NOT_JSON as error:
        raise MalformedError("it has a value that JSON cannot represent") from error


class Finder:
    """Finds positions of values in a text that `load` accepts. The text is parsed again at the first use."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._root: yaml.Node | None = None

    def where(self, path: Sequence[str | int]) -> str:
        """Return line and column, from 1, of the value at this path of keys and indices, or of its closest existing parent."""
        if self._root is None:
            self._root = yaml.compose(self._text, _Strict)
        node = self._root
        for step in path:
            if (child := _child(node, step)) is None:
                break
            node = child
        return _position(node.start_mark) if node is not None else ""


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    match node, step:
        case yaml.MappingNode(value=pairs), str():
            return next((child for key, child in pairs if key.value == step), None)
        case yaml.SequenceNode(value=items), int():
            return items[step] if step < len(items) else None
        case _:
            return None


def _position(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def sentence(error: YAMLError) -> str:
    """Return position and reason of a YAML error. The error's own text quotes the document."""
    match error:
        case yaml.MarkedYAMLError(problem=problem, problem_mark=mark) if mark is not None:
            reason = _QUOTED.sub("...", problem or "it cannot be read")
            return f"{_position(mark)}: {reason}"
        case yaml.reader.ReaderError(position=position):
            return f"a character at position {position} that YAML does not allow"
        case _:
            return "it cannot be read"
