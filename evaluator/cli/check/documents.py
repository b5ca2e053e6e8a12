"""The objects in a manifest file: YAML with several documents, or JSON, with lists of objects taken apart."""

import json
from collections.abc import Iterator
from typing import Any

import yaml

from plimsoll.text import SentenceError

_REPEATED = 100_000
"""Nodes that aliases may add to those that are written out."""
_DIGITS = 400
"""Of a number: a double has fewer, and Python takes a time that grows with their square."""
# The last three: what PyYAML lets through where a tag is not what its text is, as in `!!int ""`.
_UNREADABLE = (
    *(yaml.YAMLError, ValueError, TypeError, RecursionError),
    *(AttributeError, LookupError, OverflowError),
)


class UnreadableError(SentenceError):
    """A text that is not YAML; the message is one line, and says where."""


class _Loader(yaml.SafeLoader):
    """Refuses a key that comes twice, as kubectl does; PyYAML takes the last one without a word.

    And what would grow beyond all measure: aliases of aliases, numbers of thousands of digits.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._most = len(text) + _REPEATED
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """A node, unless it stands for too many: an alias counts as all that it repeats."""
        node: yaml.Node | None = super().compose_node(parent, index)
        if isinstance(node, yaml.CollectionNode):
            pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
            size = 1 + sum(self._sizes.get(id(part), 1) for pair in pairs for part in pair)
            if size > self._most:
                raise yaml.constructor.ConstructorError(
                    None, None, "its aliases repeat too much", node.start_mark
                )
            self._sizes[id(node)] = size
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A whole number."""
        if len(node.value) > _DIGITS:
            raise yaml.constructor.ConstructorError(
                None, None, "a number of too many digits", node.start_mark
            )
        return int(super().construct_yaml_int(node))

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is there twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def objects(text: str) -> Iterator[object]:
    """Every object in a text, those in lists too; empty documents are passed over. Raises UnreadableError."""
    try:
        for document in yaml.load_all(text, _Loader):
            # As kubectl sends it: in JSON, every key is text, and there are no dates.
            yield from _apart(json.loads(json.dumps(document, default=str)))
    except _UNREADABLE as error:
        said = str(error).replace('in "<unicode string>", ', "at ")
        raise UnreadableError(said) from error


def _apart(document: object) -> Iterator[object]:
    """An object, or those in a list, as `kubectl get -o yaml` prints them."""
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(items, list):
        for item in items:
            yield from _apart(item)
    elif document is not None:
        yield document
