"""YAML as plain text, lists and mappings: no value is guessed to be a number or a date, and no key may come twice."""

from typing import Any

import yaml
from yaml import YAMLError

__all__ = ["YAMLError", "load"]


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
    """The one document of a text; None for an empty one. YAMLError where it is none."""
    return yaml.load(text, _Loader)  # noqa: S506 (a BaseLoader makes nothing but text, lists and mappings)
