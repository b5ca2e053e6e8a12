"""Validates TASPolicy manifests against the CRD's schema: unknown fields, and values of wrong types."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

GROUP = "telemetry.intel.com"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "TASPolicy"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_DURATION = re.compile(r"0|([0-9]{1,7}([.][0-9]{1,3})?(h|m|s|ms))+", re.ASCII)

Check = Callable[[object], str | None]


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else "must be a string; put it in quotes"


def _texts(value: object) -> str | None:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return None
    return "must be a list of strings"


def _duration(value: object) -> str | None:
    if isinstance(value, str) and len(value) <= 32 and _DURATION.fullmatch(value):
        return None
    return "must be a duration like 30s or 1m30s"


def _operator(value: object) -> str | None:
    return None if value in ("allOf", "anyOf") else "must be anyOf or allOf"


def _anything(_given: object) -> str | None:
    """Accept any value; other checks validate it."""
    return None


_OPTIONS: Mapping[str, Check] = {
    "for": _duration,
    "clearAfter": _duration,
    "whenMissing": _anything,
}
_POLICY: Mapping[str, Check] = dict.fromkeys(
    ("apiVersion", "kind", "metadata", "spec", "status"), _anything
)
_SPEC: Mapping[str, Check] = {"strategies": _anything}
_STRATEGY: Mapping[str, Check] = {
    "policyName": _text,
    "logicalOperator": _operator,
    "rules": _anything,
    **_OPTIONS,
}
_RULE: Mapping[str, Check] = {
    "metricname": _anything,
    "operator": _anything,
    "target": _anything,
    "labels": _texts,
    **_OPTIONS,
}


def flaws(obj: Mapping[str, Any]) -> Iterator[str]:
    """Yield each error as a sentence that starts with the field's path."""
    if obj.get("apiVersion") != API_VERSION:
        yield f"apiVersion: must be {API_VERSION}, not {obj.get('apiVersion')!r}"
    yield from _name_flaws(obj.get("metadata"))
    yield from _field_flaws(obj, _POLICY, "")
    spec = obj.get("spec")
    yield from _field_flaws(spec, _SPEC, "spec.")
    strategies = spec.get("strategies") if isinstance(spec, Mapping) else None
    for name, strategy in (strategies if isinstance(strategies, Mapping) else {}).items():
        where = f"spec.strategies.{name}"
        yield from _field_flaws(strategy, _STRATEGY, f"{where}.")
        rules = strategy.get("rules") if isinstance(strategy, Mapping) else None
        for number, rule in enumerate(rules if isinstance(rules, list) else ()):
            yield from _field_flaws(rule, _RULE, f"{where}.rules[{number}].")


def _name_flaws(meta: object) -> Iterator[str]:
    name = meta.get("name") if isinstance(meta, Mapping) else None
    if not isinstance(name, str) or len(name) > 253 or not _NAME.fullmatch(name):
        yield (
            f"metadata.name: {name!r} is not a name: at most 253 lower-case letters, digits, '-' and "
            "'.', a letter or digit at both ends"
        )


def _field_flaws(fields: object, known: Mapping[str, Check], where: str) -> Iterator[str]:
    """Yield the errors of an object's fields; other types are reported elsewhere."""
    if not isinstance(fields, Mapping):
        return
    for field, value in fields.items():
        if (check := known.get(field)) is None:
            yield f"{where}{field}: unknown field (known: {', '.join(known)})"
        elif value is not None and (flaw := check(value)):
            yield f"{where}{field}: {flaw}"
