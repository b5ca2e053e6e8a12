"""Adds the evaluator as an extender to a KubeSchedulerConfiguration (v1); comments, order and style of the rest of its text stay.

The replaced entry's tuned fields are kept.
"""

import contextlib
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from evaluator.tools.configure_scheduler.staticpod import ManifestError, last_line
from plimsoll import strictyaml
from plimsoll.durations import duration, format_duration
from plimsoll.flags import boolean
from plimsoll.text import SentenceError, one_line, shown

RESOURCE = "telemetry/scheduling"
"""The resource a pod requests so that kube-scheduler calls the extender, as with Telemetry Aware Scheduling."""

Object = dict[str, Any]

_DEFAULTS: Mapping[str, Any] = {"weight": 1, "httpTimeout": "2s", "ignorable": False}
"""Values of the tunable fields that neither a flag nor the replaced entry has."""

_UNSET: Mapping[str, object] = {"httpTimeout": "5s", "ignorable": False, "nodeCacheCapable": False}
"""What kube-scheduler uses for fields that an entry does not have."""

_REASONS: Mapping[str, str] = {
    "urlPrefix": "the evaluator's address",
    "enableHTTPS": "by the scheme of --url",
    "tlsConfig": "the evaluator's certificates",
    "filterVerb": "the evaluator's path",
    "prioritizeVerb": "the evaluator's path",
    "preemptVerb": "otherwise kube-scheduler deletes pods on nodes that the evaluator refuses",
    "weight": "kube-scheduler requires a whole number above 0",
    "httpTimeout": "the evaluator answers from memory; set another with --timeout",
    "nodeCacheCapable": "otherwise kube-scheduler ranks every node as if it were empty, and sends whole nodes",
    "managedResources": f"the evaluator is called for {RESOURCE} only",
}
"""Why a field of the replaced entry changes."""
_NOT_SERVED = "the evaluator does not support it"
_IGNORABLE = (
    "pods are scheduled without their policies while no evaluator responds; --ignorable=false "
    "lets them wait"
)
API_VERSION = "kubescheduler.config.k8s.io/v1"
_FLAGS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "profiling": ("enableProfiling", boolean),
    "contention-profiling": ("enableContentionProfiling", boolean),
    "kube-api-qps": ("clientConnection.qps", float),
    "kube-api-burst": ("clientConnection.burst", int),
    "kube-api-content-type": ("clientConnection.contentType", str),
}
"""Flags that kube-scheduler ignores with --config, and their paths in the configuration."""
_KEY = "extenders"


@dataclass(frozen=True, slots=True)
class ExtenderEntry:
    """How kube-scheduler connects to the evaluator; plain HTTP without `ca`. None means: as in the replaced entry."""

    url: str
    timeout: float | None = None
    ignorable: bool | None = None
    server_name: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""
    weight: int | None = None
    preempt: bool = True
    """Whether kube-scheduler calls the evaluator before preemption."""

    def entry(self, replaced: Mapping[str, Any] | None = None) -> Object:
        """Return the extender's entry in the configuration, with the tunable fields of the entry that it replaces."""
        tuned = {**_DEFAULTS, **_tuned(replaced or {}), **self._given}
        tls: Object = {"enableHTTPS": False}
        if self.ca:
            tls = {
                "enableHTTPS": True,
                "tlsConfig": {
                    "serverName": self.server_name,
                    "caFile": self.ca,
                    "certFile": self.cert,
                    "keyFile": self.key,
                },
            }
        return {
            "urlPrefix": self.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            **({"preemptVerb": "preempt"} if self.preempt else {}),
            "weight": tuned["weight"],
            **tls,
            "httpTimeout": tuned["httpTimeout"],
            "nodeCacheCapable": True,
            "ignorable": tuned["ignorable"],
            "managedResources": [{"name": RESOURCE, "ignoredByScheduler": True}],
        }

    def changes(self, replaced: Mapping[str, Any]) -> Iterator[str]:
        """Yield a sentence for each field that differs from the replaced entry, and for tuned fields that are kept."""
        new = self.entry(replaced)
        for name in dict.fromkeys([*replaced, *_UNSET, *new]):
            before, after = replaced.get(name, _UNSET.get(name)), new.get(name)
            if before != after:
                was = _text(before) if name in replaced else f"not set{_default(name)}"
                now = f"becomes {_text(after)}" if name in new else "is removed"
                yield f"{name}: {was} {now}: {self._reason(name)}"
            elif name in _DEFAULTS and after != _DEFAULTS[name]:
                kept = f"{name}: {_text(after)} is kept"
                yield f"{kept}: {_IGNORABLE}" if name == "ignorable" else kept

    @property
    def _given(self) -> Object:
        """The tunable fields that flags set."""
        timeout = None if self.timeout is None else format_duration(self.timeout)
        fields = {"weight": self.weight, "httpTimeout": timeout, "ignorable": self.ignorable}
        return {name: value for name, value in fields.items() if value is not None}

    def _reason(self, name: str) -> str:
        by_flag = name in self._given or (name == "preemptVerb" and not self.preempt)
        return "set by a flag" if by_flag else _REASONS.get(name, _NOT_SERVED)


def _tuned(entry: Mapping[str, Any]) -> Object:
    """Return the valid tunable fields of an entry."""
    weight, timeout, ignorable = (entry.get(name) for name in _DEFAULTS)
    tuned: Object = {}
    if isinstance(weight, int) and not isinstance(weight, bool) and weight > 0:
        tuned["weight"] = weight
    with contextlib.suppress(ValueError):
        if isinstance(timeout, str) and duration(timeout) > 0:
            tuned["httpTimeout"] = timeout
    if isinstance(ignorable, bool):
        tuned["ignorable"] = ignorable
    return tuned


def _default(name: str) -> str:
    return f" ({_text(_UNSET[name])} by default)" if name in _UNSET else ""


def _text(value: object) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value), 100)


class ConfigurationError(SentenceError, ValueError):
    """An invalid or unsupported configuration; the message says why."""


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


def without_preempt(base: object) -> Iterator[str]:
    """Yield a sentence for each entry of the evaluator that filters nodes, but not those for preemption.

    Raises ConfigurationError.
    """
    policies, others = _divided(base)
    scorers = [one for one in others if isinstance(one, dict) and _is_scorer(one)]
    for entry in [*policies, *scorers]:
        if entry.get("filterVerb") and not entry.get("preemptVerb"):
            yield f"{_text(entry.get('urlPrefix'))} has no preemptVerb: {_REASONS['preemptVerb']}"


def _is_scorer(entry: Mapping[str, Any]) -> bool:
    return "/scorers/" in str(entry.get("urlPrefix"))


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
