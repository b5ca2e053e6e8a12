"""The objects in a manifest file: YAML with several documents, or JSON, with lists of objects taken apart."""

import json
from collections.abc import Iterator
from typing import Any

import yaml


class UnreadableError(ValueError):
    """A text that is not YAML; the message is one line, and says where."""


class _Loader(yaml.SafeLoader):
    """Refuses a key that comes twice, as kubectl does; PyYAML takes the last one without a word."""

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


def objects(text: str) -> Iterator[object]:
    """Every object in a text, those in lists too; empty documents are passed over. Raises UnreadableError."""
    try:
        for document in yaml.load_all(text, _Loader):
            # As kubectl sends it: in JSON, every key is text, and there are no dates.
            yield from _apart(json.loads(json.dumps(document, default=str)))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        said = str(error).replace('in "<unicode string>", ', "at ")
        raise UnreadableError(" ".join(said.split())) from error


def _apart(document: object) -> Iterator[object]:
    """An object, or those in a list, as `kubectl get -o yaml` prints them."""
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(items, list):
        for item in items:
            yield from _apart(item)
    elif document is not None:
        yield document
