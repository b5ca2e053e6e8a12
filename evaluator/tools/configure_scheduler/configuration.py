"""Adds the evaluator as an extender to a KubeSchedulerConfiguration (v1)."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evaluator.tools.configure_scheduler.extender_entry import RESOURCE, ExtenderEntry, Object
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
        isinstance(one, dict) and one.get("name") == RESOURCE for one in managed
    )
