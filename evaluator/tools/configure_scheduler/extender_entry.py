"""The evaluator's entry under `extenders`, and what it changes in the entry that it replaces."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.durations import duration, format_duration
from plimsoll.text import one_line

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
        return "set by a flag" if name in self._given else _REASONS.get(name, _NOT_SERVED)


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
