"""Label and field selectors, in queries and in specs."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.labels.selector import Labels, Requirement, parse_selector
from sandbox.apiserver.errors import Cause, bad_request, invalid_value, required
from sandbox.apiserver.storage.objects import Json, dig, labels_of


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
    try:
        by_label = [_on_labels(requirement) for requirement in parse_selector(labels)]
    except ValueError as error:
        raise bad_request(str(error)) from error
    by_field = [
        _on_field(name, value, equal=equal)
        for name, value, equal in _parse_fields(fields, set(supported))
    ]
    return Selector((*by_label, *by_field))


def _on_labels(requirement: Requirement) -> Callable[[Json], bool]:
    return lambda obj: requirement.matches(labels_of(obj))


def _on_field(name: str, value: str, *, equal: bool) -> Callable[[Json], bool]:
    path = name.split(".")

    def matches(obj: Json) -> bool:
        return (_field_text(dig(obj, *path)) == value) is equal

    return matches


def _field_text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_fields(text: str, supported: set[str]) -> Iterable[tuple[str, str, bool]]:
    for term in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([^=!]+?)\s*(==|=|!=)\s*(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        name, operator, value = match.groups()
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
        Requirement(item["key"], item["operator"], tuple(item.get("values") or ())).matches(labels)
        for item in selector.get("matchExpressions") or ()
    )
