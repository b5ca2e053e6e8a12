"""What the API server would refuse in a TASPolicy manifest whatever it means: fields that are not there, values of another kind."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

GROUP = "telemetry.intel.com"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "TASPolicy"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_DURATION = re.compile(r"0|([0-9]{1,7}([.][0-9]{1,3})?(h|m|s|ms))+", re.ASCII)

Check = Callable[[object], str | None]


def _text(given: object) -> str | None:
    return None if isinstance(given, str) else "it is not text; put it in quotes"


def _texts(given: object) -> str | None:
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return None
    return "it is not a list of texts"


def _duration(given: object) -> str | None:
    if isinstance(given, str) and len(given) <= 32 and _DURATION.fullmatch(given):
        return None
    return "it is not a duration; write it like 30s or 1m30s"


def _operator(given: object) -> str | None:
    return None if given in ("allOf", "anyOf") else "it is neither anyOf nor allOf"


def _anything(_given: object) -> str | None:
    """Its meaning is looked at elsewhere."""
    return None


_TERMS: Mapping[str, Check] = {"for": _duration, "clearAfter": _duration, "whenMissing": _anything}
_POLICY: Mapping[str, Check] = dict.fromkeys(
    ("apiVersion", "kind", "metadata", "spec", "status"), _anything
)
_SPEC: Mapping[str, Check] = {"strategies": _anything}
_STRATEGY: Mapping[str, Check] = {
    "policyName": _text,
    "logicalOperator": _operator,
    "rules": _anything,
    **_TERMS,
}
_RULE: Mapping[str, Check] = {
    "metricname": _anything,
    "operator": _anything,
    "target": _anything,
    "labels": _texts,
    **_TERMS,
}


def flaws(obj: Mapping[str, Any]) -> Iterator[str]:
    """Each in a sentence that begins with the place."""
    if obj.get("apiVersion") != API_VERSION:
        yield f"apiVersion: a {KIND} has {API_VERSION}, not {obj.get('apiVersion')!r}"
    yield from _name_flaws(obj.get("metadata"))
    yield from _unfit(obj, _POLICY, "")
    spec = obj.get("spec")
    yield from _unfit(spec, _SPEC, "spec.")
    strategies = spec.get("strategies") if isinstance(spec, Mapping) else None
    for name, strategy in (strategies if isinstance(strategies, Mapping) else {}).items():
        where = f"spec.strategies.{name}"
        yield from _unfit(strategy, _STRATEGY, f"{where}.")
        rules = strategy.get("rules") if isinstance(strategy, Mapping) else None
        for number, rule in enumerate(rules if isinstance(rules, list) else ()):
            yield from _unfit(rule, _RULE, f"{where}.rules[{number}].")


def _name_flaws(meta: object) -> Iterator[str]:
    name = meta.get("name") if isinstance(meta, Mapping) else None
    if not isinstance(name, str) or len(name) > 253 or not _NAME.fullmatch(name):
        yield (
            f"metadata.name: {name!r} is not a name: at most 253 lower-case letters, digits, '-' and "
            "'.', a letter or digit at both ends"
        )


def _unfit(given: object, known: Mapping[str, Check], where: str) -> Iterator[str]:
    """What is not an object at all is for others to say."""
    if not isinstance(given, Mapping):
        return
    for field, value in given.items():
        if (check := known.get(field)) is None:
            yield f"{where}{field}: there is no such field (known are {', '.join(known)})"
        elif value is not None and (flaw := check(value)):
            yield f"{where}{field}: {flaw}"
