"""kube-scheduler's configuration file (KubeSchedulerConfiguration v1) with the evaluator as an extender in it."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.durations import format_duration
from plimsoll.flags import boolean
from plimsoll.text import SentenceError, shown

API_VERSION = "kubescheduler.config.k8s.io/v1"
RESOURCE = "telemetry/scheduling"
"""What a pod requests so that kube-scheduler asks about it, as for Telemetry Aware Scheduling."""

Object = dict[str, Any]


class ConfigurationError(SentenceError, ValueError):
    """A configuration that is not understood; the text says why."""


@dataclass(frozen=True, slots=True)
class ExtenderEntry:
    """How kube-scheduler is to reach the evaluator. Without `ca` it is plain HTTP."""

    url: str
    timeout: float = 2.0
    ignorable: bool = False
    server_name: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""

    def entry(self) -> Object:
        """The extender's entry in the configuration."""
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
"""Flags that kube-scheduler ignores once there is a --config, and where they stand in it."""


def from_flags(flags: Mapping[str, str]) -> Object:
    """A configuration that says what these flags of kube-scheduler said. Raises ConfigurationError."""
    if not flags.get("kubeconfig"):
        raise ConfigurationError("kube-scheduler has neither --config nor --kubeconfig")
    if flags.get("master"):
        raise ConfigurationError(
            "kube-scheduler has --master, for which a configuration has no place"
        )
    made: Object = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": flags["kubeconfig"]},
    }
    for flag in _FLAGS.keys() & flags.keys():
        path, read = _FLAGS[flag]
        section, _, name = path.rpartition(".")
        try:
            (made[section] if section else made)[name] = read(flags[flag])
        except ValueError as error:
            raise ConfigurationError(f"--{flag}: {error}") from error
    return made


def with_extender(base: object, extender: ExtenderEntry) -> Object:
    """A configuration with the evaluator in it, in the place of whoever was asked about such pods. Raises ConfigurationError."""
    if not isinstance(base, dict) or base.get("kind") != "KubeSchedulerConfiguration":
        raise ConfigurationError("it is no KubeSchedulerConfiguration")
    if base.get("apiVersion") != API_VERSION:
        raise ConfigurationError(
            f"it is of {shown(base.get('apiVersion'))}, not {API_VERSION}, which kube-scheduler has known since 1.25"
        )
    made = copy.deepcopy(base)
    given = made.get("extenders") or []
    if not isinstance(given, list):
        raise ConfigurationError("its extenders are no list")
    others = [one for one in given if not _manages(one)]
    return {**made, "extenders": [*others, extender.entry()]}


def _manages(extender: object) -> bool:
    """Whether an extender is asked about pods that follow a policy: TAS, or an earlier evaluator."""
    managed = extender.get("managedResources") if isinstance(extender, dict) else None
    return isinstance(managed, list) and any(
        isinstance(one, dict) and one.get("name") == RESOURCE for one in managed
    )
