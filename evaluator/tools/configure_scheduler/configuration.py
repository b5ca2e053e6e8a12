"""Adds the evaluator as an extender to a KubeSchedulerConfiguration (v1); comments, order and style of the rest of its text stay."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from evaluator.tools.configure_scheduler.extender_entry import RESOURCE, ExtenderEntry, Object
from evaluator.tools.configure_scheduler.staticpod import ManifestError, last_line
from plimsoll import strictyaml
from plimsoll.flags import boolean
from plimsoll.text import SentenceError, shown

API_VERSION = "kubescheduler.config.k8s.io/v1"


class ConfigurationError(SentenceError, ValueError):
    """An invalid or unsupported configuration; the message says why."""


_FLAGS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "profiling": ("enableProfiling", boolean),
    "contention-profiling": ("enableContentionProfiling", boolean),
    "kube-api-qps": ("clientConnection.qps", float),
    "kube-api-burst": ("clientConnection.burst", int),
    "kube-api-content-type": ("clientConnection.contentType", str),
}
"""Flags that kube-scheduler ignores with --config, and their paths in the configuration."""


def from_flags(flags: Mapping[str, str]) -> Object:
    """Return a configuration equivalent to flags of kube-scheduler. Raises ConfigurationError."""
    if not flags.get("kubeconfig"):
        raise ConfigurationError("kube-scheduler has neither --config nor --kubeconfig")
    if flags.get("master"):
        raise ConfigurationError(
            "kube-scheduler has --master, which a configuration does not support"
        )
    result: Object = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": flags["kubeconfig"]},
    }
    for flag in _FLAGS.keys() & flags.keys():
        path, read = _FLAGS[flag]
        section, _, name = path.rpartition(".")
        try:
            (result[section] if section else result)[name] = read(flags[flag])
        except ValueError as error:
            raise ConfigurationError(f"--{flag}: {error}") from error
    return result


def with_extender(base: object, extender: ExtenderEntry) -> Object:
    """Return a configuration with the evaluator in place of earlier extenders for its resource. Raises ConfigurationError."""
    replaced, kept = _divided(base)
    made = extender.entry(replaced[0] if replaced else None)
    return {**copy.deepcopy(dict(base)), "extenders": [*copy.deepcopy(kept), made]}  # type: ignore[call-overload]


def changes(base: object, extender: ExtenderEntry) -> Iterator[str]:
    """Yield a sentence for each field of the replaced entry that changes, and for each tuned field that is kept."""
    replaced, _ = _divided(base)
    for old in replaced[:1]:
        yield from extender.changes(old)
    for other in replaced[1:]:
        yield f"extender {shown(other.get('urlPrefix'))} is removed: kube-scheduler admits one for {RESOURCE}"


def _divided(base: object) -> tuple[list[Object], list[Any]]:
    """Return the extenders that the evaluator replaces, and the others. Raises ConfigurationError."""
    if not isinstance(base, dict) or base.get("kind") != "KubeSchedulerConfiguration":
        raise ConfigurationError("not a KubeSchedulerConfiguration")
    if base.get("apiVersion") != API_VERSION:
        raise ConfigurationError(
            f"its apiVersion is {shown(base.get('apiVersion'))}, not {API_VERSION}, which kube-scheduler supports since 1.25"
        )
    extenders = base.get("extenders") or []
    if not isinstance(extenders, list):
        raise ConfigurationError("extenders must be a list")
    return [x for x in extenders if _manages(x)], [x for x in extenders if not _manages(x)]


def _manages(extender: object) -> bool:
    """Return whether an extender manages our resource: TAS, or an earlier evaluator."""
    managed = extender.get("managedResources") if isinstance(extender, dict) else None
    return isinstance(managed, list) and any(
        isinstance(resource, dict) and resource.get("name") == RESOURCE for resource in managed
    )


_KEY = "extenders"


def edited(text: str, result: dict[str, Any]) -> str:
    """Return a valid YAML text with the extenders of `result`; written anew if it cannot be edited line by line."""
    if _reads_as(text, result):
        return text
    try:
        changed = _edited(text, result)
    except ManifestError:
        changed = ""
    return changed if _reads_as(changed, result) else str(yaml.safe_dump(result, sort_keys=False))


def _edited(text: str, result: dict[str, Any]) -> str:
    lines = text.splitlines(keepends=True)
    root = yaml.compose(text, yaml.SafeLoader)
    if not lines or not lines[-1].endswith("\n") or not isinstance(root, yaml.MappingNode):
        return ""
    new = result[_KEY]
    node = next((value for key, value in root.value if key.value == _KEY), None)
    if node is None:
        return text + str(yaml.safe_dump({_KEY: new}, sort_keys=False))
    if not isinstance(node, yaml.SequenceNode) or node.flow_style or not node.value:
        return ""
    old = strictyaml.load_json(text)[_KEY]
    for item, entry in zip(node.value, old, strict=True):
        if entry not in new[:-1]:
            first, last = item.start_mark.line, last_line(item)
            lines[first : last + 1] = [""] * (last + 1 - first)
    indent = " " * node.start_mark.column
    added = yaml.safe_dump([new[-1]], sort_keys=False).splitlines(keepends=True)
    end = last_line(node)
    lines[end] += "".join(indent + line for line in added)
    return "".join(lines)


def _reads_as(text: str, result: dict[str, Any]) -> bool:
    try:
        return bool(strictyaml.load_json(text) == result)
    except strictyaml.MalformedError:
        return False
