"""Deployments and ReplicaSets: defaults, selector rules, and Scale."""

from typing import Any

from sandbox.apiserver.errors import Cause, bad_request, invalid_value, required
from sandbox.apiserver.kinds.behaviour import Behaviour, fill
from sandbox.apiserver.kinds.pods import default_pod_spec, pod_spec_faults
from sandbox.apiserver.storage.objects import Json, dig, meta
from sandbox.apiserver.storage.selectors import matches_selector, selector_faults


class Workload(Behaviour):
    """Replicas of a pod template."""

    counts_generations = True
    has_status = True

    def default(self, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        fill(spec, replicas=1, template={})
        fill(spec["template"], metadata={}, spec={})
        default_pod_spec(spec["template"]["spec"])

    def prepare_create(self, obj: Json, *, now: float) -> None:
        obj["status"] = {}

    def validate(self, obj: Json) -> list[Cause]:
        spec = obj["spec"]
        causes = list(pod_spec_faults(spec["template"]["spec"], "spec.template.spec"))
        if not isinstance(spec["replicas"], int) or spec["replicas"] < 0:
            why = "must be greater than or equal to 0"
            causes.append(invalid_value("spec.replicas", spec["replicas"], why))
        if not spec.get("selector"):
            return [*causes, required("spec.selector")]
        if faults := list(selector_faults(spec["selector"], "spec.selector")):
            return [*causes, *faults]
        labels = dig(spec, "template", "metadata", "labels") or {}
        if not matches_selector(spec["selector"], labels):
            why = "`selector` does not match template `labels`"
            causes.append(invalid_value("spec.template.metadata.labels", labels, why))
        return causes

    def validate_update(self, old: Json, new: Json) -> list[Cause]:
        selector = dig(new, "spec", "selector")
        if selector == dig(old, "spec", "selector"):
            return []
        return [invalid_value("spec.selector", selector, "field is immutable")]


class ReplicaSets(Workload):
    """ReplicaSets."""

    def prepare_create(self, obj: Json, *, now: float) -> None:
        obj["status"] = {"replicas": 0}


class Deployments(Workload):
    """Deployments: a workload with a rollout strategy."""

    def default(self, obj: Json) -> None:
        super().default(obj)
        spec = obj["spec"]
        fill(spec, strategy={}, revisionHistoryLimit=10, progressDeadlineSeconds=600)
        fill(spec["strategy"], type="RollingUpdate")
        if spec["strategy"]["type"] == "RollingUpdate":
            fill(spec["strategy"], rollingUpdate={})
            fill(spec["strategy"]["rollingUpdate"], maxSurge="25%", maxUnavailable="25%")


def scale_of(obj: Json) -> Json:
    """Return the autoscaling/v1 Scale of a workload."""
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta(obj)[key] for key in kept if key in meta(obj)},
        "spec": {"replicas": dig(obj, "spec", "replicas")},
        "status": {
            "replicas": dig(obj, "status", "replicas") or 0,
            "selector": selector_text(dig(obj, "spec", "selector") or {}),
        },
    }


def scaled(obj: Json, scale: Json) -> Json:
    """Return a workload with the replicas of a Scale."""
    replicas: Any = dig(scale, "spec", "replicas")
    if replicas is not None and (not isinstance(replicas, int) or isinstance(replicas, bool)):
        raise bad_request(f"spec.replicas: {replicas!r} is not an integer")
    version = meta(scale).get("resourceVersion")
    metadata = {**obj["metadata"], **({"resourceVersion": version} if version else {})}
    return {**obj, "metadata": metadata, "spec": {**obj["spec"], "replicas": replicas or 0}}


def selector_text(selector: Json) -> str:
    """Return a LabelSelector in the syntax of queries."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for item in selector.get("matchExpressions") or ():
        match item["operator"]:
            case "Exists":
                parts.append(item["key"])
            case "DoesNotExist":
                parts.append(f"!{item['key']}")
            case operator:
                parts.append(f"{item['key']} {operator.lower()} ({','.join(item['values'])})")
    return ",".join(parts)
