"""Strict YAML: no duplicate keys, a bounded number of nodes. Values are text (`load`) or those of JSON (`load_json`)."""

import json
import math
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
    """Constructs JSON types, as kubectl reads them. A date stays text, as in kubectl and the API server."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> Any:
        if len(node.value) > _MOST_DIGITS:
            raise _error("a number of too many digits", node)
        text = node.value.replace("_", "")
        number = int(_OCTAL.sub(r"\g<1>0o\2", text), 0)
        return number if -(2**63) <= number < 2**64 else float(text)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        text = node.value.lower()
        return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))

    def construct_yaml_bool(self, node: yaml.ScalarNode) -> bool:
        return node.value.lower() in ("y", "yes", "true", "on")

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """Return the tag of a node without one. Numbers too large for a double are text."""
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        too_large = tag == _FLOAT and _DIGIT.search(value) and math.isinf(_float(value))
        return _TEXT if too_large else tag


def _float(value: str) -> float:
    return float(value.replace("_", ""))


_TEXT = "tag:yaml.org,2002:str"
_FLOAT = "tag:yaml.org,2002:float"
_OCTAL = re.compile(r"^([-+]?)0([0-7]+)$", re.ASCII)
_DIGIT = re.compile(r"\d", re.ASCII)
# The resolver of kubectl, between YAML 1.1 and 1.2: no sexagesimal numbers, `0o17` and `017` are octal, `y` is a bool.
# https://github.com/kubernetes-sigs/yaml/blob/master/goyaml.v2/resolve.go; underscores are left out before a number is read.
_RESOLVED = (
    ("bool", r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"([-+]_*)?(0_*[xX][0-9a-fA-F_]*[0-9a-fA-F][0-9a-fA-F_]*|0_*[oO][0-7_]*[0-7][0-7_]*|0_*[bB][01_]*[01][01_]*|0[0-7_]*|[1-9][0-9_]*)", "-+0123456789"),
    ("float", r"\.(inf|Inf|INF|nan|NaN|NAN)|[-+]\.(inf|Inf|INF)|(([-+]_*)?[0-9][0-9_]*(\.[0-9_]*)?|[-+]_*\._*[0-9][0-9_]*)([eE]_*[-+]?_*[0-9][0-9_]*)?|\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?", "-+0123456789."),
    ("merge", "<<", "<"),
)  # fmt: skip
"""Type, pattern and first characters, in the order in which they are tried."""
_JsonTypes.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in _RESOLVED:
    _JsonTypes.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", re.compile(rf"({_pattern})\Z", re.ASCII), list(_first)
    )
for _kind in ("int", "float", "bool"):
    _JsonTypes.add_constructor(
        f"tag:yaml.org,2002:{_kind}", getattr(_JsonTypes, f"construct_yaml_{_kind}")
    )


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
