"""Label and field selectors, in queries and in specs."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll import int64
from sandbox.apiserver.errors import Cause, bad_request, invalid_value, required
from sandbox.apiserver.kinds.syntax import label_key_fault, label_value_fault
from sandbox.apiserver.storage.objects import Json, dig, labels_of

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]

_KEY = r"\s*(?P<key>[^\s,=!()<>]+)\s*"
_REQUIREMENTS = (
    (re.compile(_KEY + r"(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*"), "set"),
    (re.compile(_KEY + r"(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s,=!()<>]*)\s*"), "value"),
    (re.compile(r"\s*(?P<op>!?)" + _KEY), "exists"),
)


@dataclass(frozen=True, slots=True)
class Selector:
    """The selector of a list or watch."""

    predicates: tuple[Callable[[Json], bool], ...] = ()

    def matches(self, obj: Json) -> bool:
        """Return whether an object matches."""
        return all(predicate(obj) for predicate in self.predicates)


EVERYTHING = Selector()


def select(labels: str, fields: str, *, supported: Iterable[str]) -> Selector:
    """Return the selector of a request. Raises a 400 if a text is malformed or a field is not supported."""
    by_label = [_on_labels(requirement) for requirement in parse_labels(labels)]
    by_field = [
        _on_field(name, value, equal=equal)
        for name, value, equal in _parse_fields(fields, set(supported))
    ]
    return Selector((*by_label, *by_field))


def _on_labels(predicate: Predicate) -> Callable[[Json], bool]:
    return lambda obj: predicate(labels_of(obj))


def _on_field(name: str, value: str, *, equal: bool) -> Callable[[Json], bool]:
    path = name.split(".")

    def matches(obj: Json) -> bool:
        return (_field_text(dig(obj, *path)) == value) is equal

    return matches


def _field_text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_labels(text: str) -> list[Predicate]:
    """Return the requirements of `a=b,c!=d,e in (f,g),h,!i`."""
    predicates = []
    position = 0
    while position < len(text):
        predicate, position = _requirement(text, position)
        predicates.append(predicate)
        if position < len(text):
            if text[position] != "," or position == len(text) - 1:
                raise _unparsable(text)
            position += 1
    return predicates


def _requirement(text: str, start: int) -> tuple[Predicate, int]:
    for pattern, form in _REQUIREMENTS:
        found = pattern.match(text, start)
        if found is None or (found.end() < len(text) and text[found.end()] != ","):
            continue
        parts = found.groupdict()
        if (form == "exists" and parts["key"] in {"in", "notin"}) or label_key_fault(parts["key"]):
            raise _unparsable(text)
        values = parts.get("values") or parts.get("value") or ""
        wanted = tuple(value.strip() for value in values.split(","))
        if any(label_value_fault(value) for value in wanted):
            raise _unparsable(text)
        return _predicate(parts["key"], _OPERATORS[form + parts["op"]], wanted), found.end()
    raise _unparsable(text)


def _unparsable(text: str) -> Exception:
    return bad_request(f'unable to parse requirement: found no label selector in "{text}"')


_OPERATORS = {
    "setin": "In",
    "setnotin": "NotIn",
    "value=": "In",
    "value==": "In",
    "value!=": "NotIn",
    "value>": "Gt",
    "value<": "Lt",
    "exists": "Exists",
    "exists!": "DoesNotExist",
}


def _predicate(key: str, operator: str, values: tuple[str, ...]) -> Predicate:
    match operator:
        case "In":
            return lambda labels: key in labels and labels[key] in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case "Gt":
            return lambda labels: _ordered(labels.get(key), values[0], 1)
        case "Lt":
            return lambda labels: _ordered(labels.get(key), values[0], -1)
        case _:
            raise bad_request(f'"{operator}" is not a valid label selector operator')


def _ordered(have: str | None, bound: str, sign: int) -> bool:
    left, right = int64.parse(have or ""), int64.parse(bound)
    return left is not None and right is not None and (left - right) * sign > 0


def _parse_fields(text: str, supported: set[str]) -> Iterable[tuple[str, str, bool]]:
    for term in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"([^=!]+?)\s*(==|=|!=)\s*(.*)", term)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        name, operator, value = found.groups()
        if name not in supported:
            raise bad_request(f"field label not supported: {name}")
        yield name, value, operator != "!="


def selector_faults(selector: Any, field: str) -> Iterator[Cause]:
    """Return all errors of a metav1.LabelSelector."""
    for index, item in enumerate((selector or {}).get("matchExpressions") or ()):
        where = f"{field}.matchExpressions[{index}]"
        if not item.get("key"):
            yield required(f"{where}.key")
        operator, values = item.get("operator"), item.get("values")
        if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            yield invalid_value(f"{where}.operator", operator, "not a valid selector operator")
        elif operator in {"In", "NotIn"} and not values:
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{where}.values", why)


def matches_selector(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Return whether labels match a metav1.LabelSelector. An absent one matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(
        _predicate(item["key"], item["operator"], tuple(item.get("values") or ()))(labels)
        for item in selector.get("matchExpressions") or ()
    )
