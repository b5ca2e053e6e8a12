"""Combines the objects of kustomizations into Helm templates: what a component adds is inside `if`."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Variants = Mapping[str, Any]
"""A condition of the chart -> the object as a kustomization with that component has it."""

NAMESPACE = "{{ .Release.Namespace }}"
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9 _./()=,+-]*")
_IN_NAMESPACE = re.compile(
    r"(?<=plimsoll-evaluator\.)plimsoll(?=\.svc|$)"
    r"|(?<=plimsoll-evaluator-agents\.)plimsoll(?=\.svc|$)"
    r"|(?<=system:serviceaccount:)plimsoll(?=:)"
    r"|(?<![\w.-])plimsoll(?=/plimsoll-)"
)


class ConflictError(Exception):
    """A component changes an object in a way that a condition cannot express."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Template text in place of a value; with `block`, an expression that returns YAML to indent."""

    text: str
    block: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """Template lines in place of a list's item, without indentation."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Added:
    """A value that exists only if the condition holds."""

    condition: str
    value: Any


@dataclass(frozen=True, slots=True)
class More:
    """Further entries of a mapping or list, from a value of the chart, which may be empty."""

    value: str


@dataclass(frozen=True, slots=True)
class Either:
    """A value of the chart if it is set, else a tree."""

    value: str
    otherwise: Any


@dataclass(frozen=True, slots=True)
class Replaced:
    """A scalar that has another value if the condition holds."""

    condition: str
    value: Any
    otherwise: Any


def merge(base: Any, variants: Variants) -> Any:
    """Return `base` with the differences of all variants as conditional parts. Raises ConflictError."""
    changed = {name: variant for name, variant in variants.items() if variant != base}
    if not changed:
        return base
    if isinstance(base, dict) and all(isinstance(one, dict) for one in changed.values()):
        return _merge_mappings(base, changed)
    if isinstance(base, list) and all(isinstance(one, list) for one in changed.values()):
        return _merge_lists(base, changed)
    if len(changed) == 1:
        ((condition, value),) = changed.items()
        return Replaced(condition, value, base)
    raise ConflictError(f"{' and '.join(changed)} replace the same value {base!r}")


def _merge_mappings(base: dict[str, Any], variants: Variants) -> dict[str, Any]:
    merged = {}
    for key, value in base.items():
        if gone := [name for name, variant in variants.items() if key not in variant]:
            raise ConflictError(f"{gone[0]} removes {key!r}")
        merged[key] = merge(value, {name: variant[key] for name, variant in variants.items()})
    for name, variant in variants.items():
        for key in sorted(variant.keys() - base.keys()):
            if key in merged:
                raise ConflictError(f"{name} and another component add {key!r}")
            merged[key] = Added(name, variant[key])
    return merged


def _merge_lists(base: list[Any], variants: Variants) -> list[Any]:
    if short := [name for name, variant in variants.items() if len(variant) < len(base)]:
        raise ConflictError(f"{short[0]} removes an item of {base!r}")
    merged = [
        merge(value, {name: variant[index] for name, variant in variants.items()})
        for index, value in enumerate(base)
    ]
    for name, variant in variants.items():
        merged += [Added(name, value) for value in variant[len(base) :]]
    return merged


def put(tree: Any, path: Sequence[str | int], value: Any) -> None:
    """Set a value below mappings and lists; an index of a list's length appends."""
    *above, last = path
    for step in above:
        tree = tree[step]
    if isinstance(tree, list) and last == len(tree):
        tree.append(value)
    else:
        tree[last] = value


def lines(tree: Any, indent: int = 0) -> Iterator[str]:
    """Return the template's lines of a mapping or list."""
    pad = " " * indent
    entries = tree.items() if isinstance(tree, dict) else ((None, value) for value in tree)
    for key, entry in entries:
        if isinstance(entry, More):
            yield f"{{{{- with {entry.value} }}}}"
            yield f"{{{{- toYaml . | nindent {indent} }}}}"
            yield "{{- end }}"
        elif isinstance(entry, Either):
            yield f"{{{{- if {entry.value} }}}}"
            yield from _entry(pad, key, Raw(f"toYaml {entry.value}", block=True))
            yield "{{- else }}"
            yield from _entry(pad, key, entry.otherwise)
            yield "{{- end }}"
        elif isinstance(entry, Added):
            yield f"{{{{- if {entry.condition} }}}}"
            yield from _entry(pad, key, entry.value)
            yield "{{- end }}"
        else:
            yield from _entry(pad, key, entry)


def _entry(pad: str, key: str | None, value: Any) -> Iterator[str]:
    head = f"{pad}- " if key is None else f"{pad}{scalar(key)}: "
    match value:
        case Item(lines=given):
            yield from (line if line.startswith("{{-") else pad + line for line in given)
        case Raw(text=text, block=True):
            yield head.rstrip()
            yield f"{{{{- {text} | nindent {len(pad) + 2} }}}}"
        case Raw(text=text):
            yield head + text
        case Replaced(condition=condition, value=then, otherwise=otherwise):
            yield f"{head}{{{{ if {condition} }}}}{scalar(then)}{{{{ else }}}}{scalar(otherwise)}{{{{ end }}}}"
        case dict() | list() if value:
            body = list(lines(value, len(pad) + 2))
            if key is None and not body[0].startswith("{{-"):
                yield f"{pad}- {body[0].lstrip()}"
                yield from body[1:]
            else:
                yield head.rstrip()
                yield from body
        case str() if "\n" in value.rstrip("\n"):
            yield f"{head}|{'' if value.endswith(chr(10)) else '-'}"
            yield from (f"{pad}  {_escape(line)}" if line else "" for line in value.splitlines())
        case _:
            yield head + scalar(value)


def scalar(value: Any) -> str:
    """Return a scalar as YAML, with the namespace as the release has it."""
    if not isinstance(value, str):
        return json.dumps(value)
    plain = _PLAIN.fullmatch(value) and yaml.safe_load(value) == value
    return in_namespace(_escape(value if plain else json.dumps(value, ensure_ascii=False)))


def in_namespace(text: str) -> str:
    """Replace our namespace in names of Services, accounts and certificates, and the name of the evaluator's account."""
    user = "{{ .Values.evaluator.serviceAccount.name }}"
    account = "system:serviceaccount:plimsoll:"
    text = text.replace(f"{account}plimsoll-evaluator", account + user)
    return _IN_NAMESPACE.sub(NAMESPACE, text)


def _escape(text: str) -> str:
    """Keep `{{` of alerts and dashboards as it is."""
    return text.replace("{{", '{{ "{{" }}')
