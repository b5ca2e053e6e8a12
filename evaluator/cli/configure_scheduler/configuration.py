"""Adds the evaluator as an extender to a KubeSchedulerConfiguration (v1)."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.durations import format_duration
from plimsoll.flags import boolean
from plimsoll.text import SentenceError, shown

API_VERSION = "kubescheduler.config.k8s.io/v1"
RESOURCE = "telemetry/scheduling"
"""The resource a pod requests so that kube-scheduler calls the extender, as with Telemetry Aware Scheduling."""

Object = dict[str, Any]


class ConfigurationError(SentenceError, ValueError):
    """An invalid or unsupported configuration; the message says why."""


@dataclass(frozen=True, slots=True)
class ExtenderEntry:
    """How kube-scheduler connects to the evaluator; plain HTTP without `ca`."""

    url: str
    timeout: float = 2.0
    ignorable: bool = False
    server_name: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""

    def entry(self) -> Object:
        """Return the extender's entry in the configuration."""
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
            "weight": 1,
            **tls,
            "httpTimeout": format_duration(self.timeout),
            "nodeCacheCapable": True,
            "ignorable": self.ignorable,
            "managedResources": [{"name": RESOURCE, "ignoredByScheduler": True}],
        }


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
    if not isinstance(base, dict) or base.get("kind") != "KubeSchedulerConfiguration":
        raise ConfigurationError("not a KubeSchedulerConfiguration")
    if base.get("apiVersion") != API_VERSION:
        raise ConfigurationError(
            f"its apiVersion is {shown(base.get('apiVersion'))}, not {API_VERSION}, which kube-scheduler supports since 1.25"
        )
    result = copy.deepcopy(base)
    extenders = result.get("extenders") or []
    if not isinstance(extenders, list):
        raise ConfigurationError("extenders must be a list")
    kept = [one for one in extenders if not _manages(one)]
    return {**result, "extenders": [*kept, extender.entry()]}


def _manages(extender: object) -> bool:
    """Return whether an extender manages our resource: TAS, or an earlier evaluator."""
    managed = extender.get("managedResources") if isinstance(extender, dict) else None
    return isinstance(managed, list) and any(
        isinstance(one, dict) and one.get("name") == RESOURCE for one in managed
    )
