"""Sets of fields in the format of managedFields (FieldsV1), and operations on objects with them.

Elements of a path: `f:name` for a field, `k:{"name":"x"}` for an item of a keyed list, `v:"x"` for a set's item.
"""

import json
from collections.abc import Iterator
from typing import Any

from sandbox.apiserver.kinds.topology import Topology
from sandbox.apiserver.storage.objects import Json


class Fields:
    """An immutable set of paths."""

    __slots__ = ("children", "members")

    def __init__(
        self, members: frozenset[str] = frozenset(), children: dict[str, "Fields"] | None = None
    ) -> None:
        self.members = members
        self.children = {name: inner for name, inner in (children or {}).items() if inner}

    def __bool__(self) -> bool:
        return bool(self.members or self.children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fields):
            return NotImplemented
        return self.members == other.members and self.children == other.children

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: "Fields") -> "Fields":
        children = dict(self.children)
        for name, inner in other.children.items():
            children[name] = children[name] | inner if name in children else inner
        return Fields(self.members | other.members, children)

    def __sub__(self, other: "Fields") -> "Fields":
        children = {
            name: inner - other.children[name] if name in other.children else inner
            for name, inner in self.children.items()
        }
        return Fields(self.members - other.members, children)

    def __and__(self, other: "Fields") -> "Fields":
        shared = self.children.keys() & other.children.keys()
        children = {name: self.children[name] & other.children[name] for name in shared}
        return Fields(self.members & other.members, children)

    def beside(self, element: str) -> "Fields":
        """Return the set without a path element and everything below it."""
        children = {name: inner for name, inner in self.children.items() if name != element}
        return Fields(self.members - {element}, children)

    def paths(self, prefix: str = "") -> Iterator[str]:
        """Yield every path in the format of error messages: `.metadata.labels.app`."""
        for element in sorted({*self.members, *self.children}):
            path = prefix + _spoken(element)
            if element in self.members:
                yield path
            if element in self.children:
                yield from self.children[element].paths(path)

    def encode(self) -> Json:
        """Return the set as FieldsV1."""
        encoded: Json = {}
        for element in sorted({*self.members, *self.children}):
            inner = self.children[element].encode() if element in self.children else {}
            own: Json = {".": {}} if inner and element in self.members else {}
            encoded[element] = {**own, **inner}
        return encoded


EMPTY = Fields()


def decode(encoded: Any) -> Fields:
    """Return a set from FieldsV1. Raises ValueError if it is malformed."""
    if not isinstance(encoded, dict):
        raise ValueError("fieldsV1 is not an object")
    members, children = set(), {}
    for element, inner in encoded.items():
        if element == ".":
            continue
        children[element] = decode(inner)
        if not inner or "." in inner:
            members.add(element)
    return Fields(frozenset(members), children)


def _spoken(element: str) -> str:
    kind, _, text = element.partition(":")
    match kind:
        case "k":
            pairs = json.loads(text).items()
            return f"[{','.join(f'{key}={_compact(value)}' for key, value in pairs)}]"
        case "v":
            return f"[={text}]"
        case "i":
            return f"[{text}]"
        case _:
            return f".{text}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def elements(items: list[Any], topology: Topology) -> dict[str, Any]:
    """Return the items of a set or keyed list by path element; of duplicates, the last."""
    if topology.kind == "set":
        return {f"v:{_compact(item)}": item for item in items}
    return {item_element(item, topology): item for item in items}


def item_element(item: Any, topology: Topology) -> str:
    """Return the path element of an item of a keyed list."""
    given = item if isinstance(item, dict) else {}
    key = {name: given.get(name, topology.default(name)) for name in sorted(topology.keys)}
    return f"k:{_compact(key)}"


def is_associative(value: Any, topology: Topology) -> bool:
    """Return whether a value is a set or keyed list."""
    return isinstance(value, list) and topology.kind in {"set", "keyed"}


def parts(value: Any, topology: Topology) -> dict[str, tuple[Any, Topology]] | None:
    """Return the parts of a value by path element; None for an atomic value."""
    if isinstance(value, dict) and topology.kind != "atomic":
        return {f"f:{name}": (item, topology.child(name)) for name, item in value.items()}
    if is_associative(value, topology):
        inner = topology.item()
        return {name: (item, inner) for name, item in elements(value, topology).items()}
    return None


def claimed(value: Any, topology: Topology) -> Fields:
    """Return the fields of an applied configuration, which the applier owns."""
    members, children = set(), {}
    for element, (item, inner) in (parts(value, topology) or {}).items():
        if parts(item, inner) is None:
            members.add(element)
            continue
        children[element] = claimed(item, inner)
        in_map = element.startswith("f:") and not topology.names(element[2:])
        if in_map or not element.startswith("f:") or item == {}:
            members.add(element)
    return Fields(frozenset(members), children)


class _FieldsBuilder:
    """Builds a set of fields."""

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.children: dict[str, Fields] = {}

    def add_whole(self, element: str, item: Any, topology: Topology) -> None:
        """Add a path with all paths below it, containers included."""
        self.children[element] = all_of(item, topology)
        if not (topology.always_present and isinstance(item, dict)):
            self.members.add(element)

    def fields(self) -> Fields:
        return Fields(frozenset(self.members), self.children)


def all_of(value: Any, topology: Topology) -> Fields:
    """Return every path of a value."""
    gathered = _FieldsBuilder()
    for element, (item, inner) in (parts(value, topology) or {}).items():
        gathered.add_whole(element, item, inner)
    return gathered.fields()


def compare(old: Any, new: Any, topology: Topology) -> tuple[Fields, Fields]:
    """Return the fields that a change set (added or modified) and removed."""
    before, after = parts(old, topology) or {}, parts(new, topology) or {}
    changed, removed = _FieldsBuilder(), _FieldsBuilder()
    for element in {**before, **after}:
        have, want = before.get(element), after.get(element)
        if want is None and have is not None:
            removed.add_whole(element, *have)
        elif have is None and want is not None:
            changed.add_whole(element, *want)
        elif have is not None and want is not None and have[0] != want[0]:
            if parts(*have) is None or parts(*want) is None:
                changed.add_whole(element, *want)
                removed.children[element] = all_of(*have) - all_of(*want)
            else:
                inner = compare(have[0], want[0], want[1])
                changed.children[element], removed.children[element] = inner
    return changed.fields(), removed.fields()


def merge(live: Any, config: Any, topology: Topology) -> Any:
    """Return a live value merged with an applied configuration; neither is changed."""
    if isinstance(live, dict) and isinstance(config, dict) and topology.kind != "atomic":
        merged = dict(live)
        for name, item in config.items():
            merged[name] = merge(live.get(name), item, topology.child(name))
        return merged
    if is_associative(live, topology) and isinstance(config, list):
        items, inner = elements(live, topology), topology.item()
        for element, item in elements(config, topology).items():
            items[element] = merge(items.get(element), item, inner)
        return list(items.values())
    return config


def without(value: Any, fields: Fields, topology: Topology) -> Any:
    """Return a value without the fields of a set, and without containers that become empty."""
    if isinstance(value, dict) and topology.kind != "atomic":
        kept = {}
        for name, item in value.items():
            left = _left(item, f"f:{name}", fields, topology.child(name))
            if left is not None or item is None:
                kept[name] = left
        return kept if kept or not value else None
    if is_associative(value, topology):
        inner = topology.item()
        remaining = [
            _left(item, element, fields, inner)
            for element, item in elements(value, topology).items()
        ]
        return [item for item in remaining if item is not None] or (None if value else [])
    return value


def _left(item: Any, element: str, fields: Fields, topology: Topology) -> Any:
    if element in fields.members:
        return None
    if element in fields.children:
        return without(item, fields.children[element], topology)
    return item


def with_containers(fields: Fields, topology: Topology) -> Fields:
    """Return a set extended by every struct field that contains a member."""
    children = {
        element: with_containers(inner, _below(element, topology))
        for element, inner in fields.children.items()
    }
    named = {element for element in children if element[:2] == "f:" and topology.names(element[2:])}
    return Fields(fields.members | named, children)


def _below(element: str, topology: Topology) -> Topology:
    return topology.child(element[2:]) if element[:2] == "f:" else topology.item()
