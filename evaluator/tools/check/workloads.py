"""Checks Pods, and workloads that create pods, against the policies that their labels name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from evaluator.core.cache.policy_pods import NotApplied, needs_request, sentence
from evaluator.core.model.names import EXTENDER_RESOURCE, POLICY_LABEL, PolicyKey
from evaluator.core.model.pod import Pod
from evaluator.core.policy.types import Policy

_TEMPLATE = ("spec", "template")
_TEMPLATES: Mapping[tuple[str, str], Sequence[str]] = {
    ("v1", "Pod"): (),
    ("v1", "ReplicationController"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", *_TEMPLATE),
}
"""Path of the pod template by API group (or v1) and kind."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The parts of a Pod or workload that concern policies. `policy`: the label's value on its pods, empty if absent."""

    namespace: str
    policy: str
    requests: bool
    template: str
    """The path of the pod template in the manifest; empty for a Pod."""
    own_label: str = ""
    """The label's value on the workload itself."""
    error: str = ""
    """Why its pod template cannot be read."""

    @property
    def concerns_policies(self) -> bool:
        """Whether it names a policy, or requests the extender's resource."""
        return bool(self.policy or self.requests or self.own_label or self.error)


def workload(obj: Mapping[str, Any]) -> Workload | None:
    """Return a Pod or workload; None for other kinds of objects."""
    group = str(obj.get("apiVersion")).partition("/")[0]
    if (path := _TEMPLATES.get((group, str(obj.get("kind"))))) is None:
        return None
    part: Any = obj
    for step in path:
        part = part.get(step) if isinstance(part, Mapping) else None
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    labels = meta.get("labels")
    own = labels.get(POLICY_LABEL) if path and isinstance(labels, Mapping) else ""
    where, namespace = ".".join(path), str(meta.get("namespace") or "")
    try:
        template = msgspec.convert(part or {}, type=dict[str, Any])
        fields = {key: value for key, value in template.items() if value is not None}
        pod = msgspec.convert({"metadata": {}, **fields}, type=Pod)
    except msgspec.ValidationError as error:
        own = str(own or "")
        return Workload(namespace, "", False, where, own, f"{where or 'pod'}: {error}")
    policy = (pod.metadata.labels or {}).get(POLICY_LABEL, "")
    return Workload(namespace, policy, pod.spec.requests_extender, where, str(own or ""))


def warnings(checked: Workload, policies: Mapping[PolicyKey, Policy]) -> Iterator[str]:
    """Yield why the pods' policy does not apply, as far as the given policies tell."""
    if not checked.policy:
        if checked.own_label:
            yield (
                f"the label {POLICY_LABEL} is in metadata.labels and not in {checked.template}.metadata.labels, so the pods "
                "do not have it and no policy applies to them"
            )
        elif checked.requests:
            yield f"its pods request {EXTENDER_RESOURCE} but have no label {POLICY_LABEL}, so no policy applies to them"
        return
    key = PolicyKey(checked.namespace, checked.policy)
    # Without a namespace, a manifest's namespace is that of kubectl.
    near = {
        k: p
        for k, p in policies.items()
        if not checked.namespace or k.namespace in ("", checked.namespace)
    }
    same = [policy for other, policy in near.items() if other.name == key.name]
    if policies and not same:
        elsewhere = any(other.name == key.name for other in policies)
        why = NotApplied.OTHER_NAMESPACE if elsewhere else NotApplied.NO_POLICY
        names = {other.name for other in near}
        if elsewhere or names:
            yield sentence(key, why, names)
    if not checked.requests and (not same or any(map(needs_request, same))):
        yield sentence(key, NotApplied.NO_REQUEST)
