"""Parses label selectors and matches labels: `a=b,c!=d,e in (f,g),h,!i`."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from plimsoll.labels import int64
from plimsoll.labels.syntax import label_key_fault, label_value_fault

Labels = Mapping[str, str]

_KEY = r"\s*(?P<key>[^\s,=!()<>]+)\s*"
_REQUIREMENTS = (
    (re.compile(_KEY + r"(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*"), "set"),
    (re.compile(_KEY + r"(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s,=!()<>]*)\s*"), "value"),
    (re.compile(r"\s*(?P<op>!?)" + _KEY), "exists"),
)
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


class Requirement(NamedTuple):
    """One requirement of a label selector. `operator`: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether labels match. An unknown operator matches nothing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt":
                return _ordered(value, self.values[0], 1)
            case "Lt":
                return _ordered(value, self.values[0], -1)
            case _:
                return False


def parse_selector(text: str) -> list[Requirement]:
    """Return the requirements of `a=b,c!=d,e in (f,g),h,!i`, all of which must match. Raises ValueError."""
    requirements = []
    position = 0
    while position < len(text):
        requirement, position = _requirement(text, position)
        requirements.append(requirement)
        if position < len(text):
            if text[position] != "," or position == len(text) - 1:
                raise _unparsable(text)
            position += 1
    return requirements


def _requirement(text: str, start: int) -> tuple[Requirement, int]:
    for pattern, form in _REQUIREMENTS:
        match = pattern.match(text, start)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            continue
        parts = match.groupdict()
        if (form == "exists" and parts["key"] in {"in", "notin"}) or label_key_fault(parts["key"]):
            raise _unparsable(text)
        values = parts.get("values") or parts.get("value") or ""
        wanted = tuple(value.strip() for value in values.split(","))
        if any(label_value_fault(value) for value in wanted):
            raise _unparsable(text)
        return Requirement(parts["key"], _OPERATORS[form + parts["op"]], wanted), match.end()
    raise _unparsable(text)


def _unparsable(text: str) -> ValueError:
    return ValueError(f'unable to parse requirement: found no label selector in "{text}"')


def _ordered(have: str | None, bound: str, sign: int) -> bool:
    left, right = int64.parse(have or ""), int64.parse(bound)
    return left is not None and right is not None and (left - right) * sign > 0
