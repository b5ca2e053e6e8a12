"""Manifest files and their objects, and the CRD's schema of TASPolicy: unknown fields, and values of wrong types.

Other commands read the policies of manifests by `policies`. A file is YAML with several documents, or JSON. Lists of objects are flattened.
"""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluator.core.policy.parse import parse
from evaluator.core.policy.types import Policy
from evaluator.core.readings.node_conditions import PREFIX
from evaluator.features.registry import VOCABULARY
from plimsoll import strictyaml
from plimsoll.files import userfile
from plimsoll.strictyaml import MalformedError
from plimsoll.text import SentenceError

GROUP = "telemetry.intel.com"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "TASPolicy"
SCHEDULER = "KubeSchedulerConfiguration"

_SUFFIXES = (".yaml", ".yml", ".json")
"""File name suffixes that `kubectl apply --filename FOLDER` reads."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_DURATION = re.compile(r"0|([0-9]{1,7}([.][0-9]{1,3})?(h|m|s|ms))+", re.ASCII)

Check = Callable[[object], str | None]


def files_in(root: str) -> Iterator[str]:
    """Yield the manifests in a folder and its subfolders, sorted by name; symbolic links to folders are not followed."""
    for folder, subfolders, files in os.walk(root):
        subfolders.sort()
        yield from (str(Path(folder, file)) for file in sorted(files) if file.endswith(_SUFFIXES))


def objects(text: str) -> Iterator[object]:
    """Yield every object of a text, including items of lists; skip empty documents. Raises `strictyaml.MalformedError`."""
    for document in strictyaml.load_all_json(text, allow_nan=True):
        yield from _flattened(document)


def recorded(document: object) -> frozenset[str]:
    """Return the series that a file of recording rules records; empty for other documents."""
    groups = document.get("groups") if isinstance(document, dict) else None
    rules = (
        rule
        for group in (groups if isinstance(groups, list) else ())
        if isinstance(group, dict) and isinstance(group.get("rules"), list)
        for rule in group["rules"]
        if isinstance(rule, dict)
    )
    return frozenset(name for rule in rules if isinstance(name := rule.get("record"), str))


def monitored(document: object) -> frozenset[str]:
    """Return the types of conditions of a log monitor, or of those in a ConfigMap; empty for other documents."""
    if not isinstance(document, dict):
        return frozenset()
    data = document.get("data") if document.get("kind") == "ConfigMap" else None
    texts = data.values() if isinstance(data, dict) else ()
    monitors = [document, *map(_json, filter(_is_text, texts))]
    return frozenset(
        condition["type"]
        for monitor in monitors
        if isinstance(monitor, dict) and _is_text(monitor.get("plugin"))
        for condition in _items(monitor.get("conditions"))
        if isinstance(condition, dict) and _is_text(condition.get("type"))
    )


def scheduler(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the configurations of kube-scheduler in an object: itself, or those in a ConfigMap."""
    if document.get("kind") == SCHEDULER:
        yield document
    data = document.get("data") if document.get("kind") == "ConfigMap" else None
    for text in filter(_is_text, data.values() if isinstance(data, dict) else ()):
        if SCHEDULER not in text:
            continue
        with contextlib.suppress(MalformedError):
            found = strictyaml.load_json(text)
            if isinstance(found, dict) and found.get("kind") == SCHEDULER:
                yield found


def _json(text: str) -> object:
    """Return a JSON document; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _flattened(document: object) -> Iterator[object]:
    """Yield an object, or the items of a list as `kubectl get -o yaml` prints it."""
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(items, list):
        for item in items:
            yield from _flattened(item)
    elif document is not None:
        yield document


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else "must be a string; put it in quotes"


def _texts(value: object) -> str | None:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
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


class PoliciesError(SentenceError):
    """The policies cannot be replayed."""


def policies(names: Sequence[str], *, any_metric: bool = False) -> list[Policy]:
    """Return the policies of files and folders; `-` is standard input. Raises PoliciesError.

    `any_metric`: also those with metrics that are not recorded.
    """
    by_key: dict[Any, Policy] = {}
    for name in names:
        for obj in _objects(name):
            policy = parse(obj, vocabulary=VOCABULARY)
            if policy.key in by_key:
                raise PoliciesError(f"{name}: policy {policy.key} appears twice")
            by_key[policy.key] = policy
    if not by_key:
        raise PoliciesError(f"{', '.join(names)}: no TASPolicy found")
    for policy in by_key.values():
        _check(policy, any_metric=any_metric)
    return [*by_key.values()]


def _check(policy: Policy, *, any_metric: bool) -> None:
    """Refuse policies of which nothing, or not everything, can be replayed."""
    if not policy.metrics:
        why = policy.problems[0] if policy.problems else "it has no rules"
        raise PoliciesError(f"policy {policy.key}: {why}")
    live = sorted(
        metric
        for metric in policy.base_metrics
        if metric.startswith(PREFIX) or metric in policy.derived_metrics
    )
    if live and not any_metric:
        raise PoliciesError(
            f"policy {policy.key}: {', '.join(live)}: node conditions and derived metrics are not recorded, so they cannot "
            "be replayed; remove these rules from a copy of the policy"
        )


def _objects(name: str) -> Iterator[Mapping[str, Any]]:
    files = [*files_in(name)] if name != "-" and Path(name).is_dir() else [name]
    for file in files:
        try:
            text = userfile.read_text(file)
            for obj in objects(text):
                if isinstance(obj, Mapping) and obj.get("kind") == KIND:
                    meta = obj.get("metadata")
                    if not isinstance(meta, Mapping) or not isinstance(meta.get("name"), str):
                        raise PoliciesError(f"{file}: a policy without a name")
                    yield {**obj, "metadata": {**meta, "generation": 0, "uid": ""}}
        except UnicodeDecodeError as error:
            raise PoliciesError(f"{file}: not a text file") from error
        except OSError as error:
            raise PoliciesError(f"{file}: cannot be read: {error.strerror}") from error
        except MalformedError as error:
            raise PoliciesError(f"{file}: invalid YAML: {error}") from error
