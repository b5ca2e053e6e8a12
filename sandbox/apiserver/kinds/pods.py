"""Pods: defaults, allowed updates, binding to a node, and scheduling gates: syntax, removal only, updates of gated pods."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from plimsoll import quantity
from plimsoll.labels.syntax import label_key_fault
from sandbox.apiserver.errors import (
    ApiError,
    Cause,
    Subject,
    conflict,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from sandbox.apiserver.kinds.behaviour import Behaviour, Objects, as_quantities, fill
from sandbox.apiserver.kinds.priorities import COLLECTION, prioritize
from sandbox.apiserver.storage.objects import Json, dig, with_condition

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Pods(Behaviour):
    """Pods, whose spec is nearly immutable."""

    has_status = True

    def default(self, obj: Json) -> None:
        default_pod_spec(obj.setdefault("spec", {}))
        fill(obj["spec"], serviceAccountName="default")

    def admit(self, obj: Json, objects: Objects) -> None:
        prioritize(obj, objects(COLLECTION))

    def prepare_create(self, obj: Json, *, now: float) -> None:
        status: Json = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if gates(obj["spec"]):
            gated = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
            status["conditions"] = with_condition([], gated, now=now)
        obj["status"] = status

    def prepare_update(self, old: Json, new: Json) -> None:
        super().prepare_update(old, new)
        # Clients that write a whole pod need not know the fields set from its class.
        given = {field: old["spec"].get(field) for field in ("priority", "preemptionPolicy")}
        fill(new["spec"], **{field: value for field, value in given.items() if value is not None})

    def validate(self, obj: Json) -> list[Cause]:
        causes = list(pod_spec_faults(obj["spec"], "spec"))
        if obj["spec"].get("nodeName") and gates(obj["spec"]):
            why = "cannot be set until all schedulingGates have been cleared"
            causes.append(forbidden_field("spec.nodeName", why))
        return causes

    def validate_update(self, old: Json, new: Json) -> list[Cause]:
        return _update_faults(old["spec"], new["spec"])


def default_pod_spec(spec: Json) -> None:
    """Set the defaults of a pod or pod template."""
    fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        terminationGracePeriodSeconds=30,
        securityContext={},
    )
    if not gates(spec):
        spec.pop("schedulingGates", None)  # an empty list is removed
    for container in _containers(spec):
        _default_container(container)


def _default_container(container: Json) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition(":")[2]
    fill(
        container,
        imagePullPolicy="IfNotPresent" if tag not in {"", "latest"} else "Always",
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        resources={},
    )
    for port in container.get("ports") or ():
        fill(port, protocol="TCP")
    resources = container["resources"]
    for field in ("limits", "requests"):
        if field in resources:
            resources[field] = as_quantities(resources[field])
    if limits := resources.get("limits"):
        # A limit without a request sets the request; `telemetry/scheduling` is often given as a limit.
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _containers(spec: Json) -> Iterator[Json]:
    for field in ("initContainers", "containers"):
        yield from spec.get(field) or ()


def qos_class(spec: Json) -> str:
    """Return Guaranteed, Burstable or BestEffort, by the containers' cpu and memory."""
    wanted = [
        (_compute(container, "requests"), _compute(container, "limits"))
        for container in _containers(spec)
    ]
    if not any(requests or limits for requests, limits in wanted):
        return "BestEffort"
    full = all(len(limits) == 2 and requests == limits for requests, limits in wanted)
    return "Guaranteed" if full else "Burstable"


def _compute(container: Json, part: str) -> dict[str, Fraction]:
    """Return the cpu and memory amounts above zero."""
    quantities = dig(container, "resources", part) or {}
    amounts = {name: _amount(quantities[name]) for name in ("cpu", "memory") if name in quantities}
    return {name: amount for name, amount in amounts.items() if amount}


def _amount(text: Any) -> Fraction:
    try:
        return quantity.exact(str(text))
    except ValueError:  # a real server would have rejected it
        return Fraction()


def pod_spec_faults(spec: Json, field: str) -> Iterator[Cause]:
    """Return all validation errors of the spec of a pod or template."""
    containers = spec.get("containers")
    if not containers:
        yield required(f"{field}.containers")
    for index, container in enumerate(containers or ()):
        for name in ("name", "image"):
            if not container.get(name):
                yield required(f"{field}.containers[{index}].{name}")
    yield from gate_faults(spec, field)


_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _update_faults(old: Json, new: Json) -> list[Cause]:
    causes = list(gate_additions(old, new))
    tolerations = new.get("tolerations") or []
    if any(item not in tolerations for item in old.get("tolerations") or ()):
        why = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(forbidden_field("spec.tolerations", why))
    gated = bool(gates(old))
    if gated:
        causes += widenings(old, new)
    if _frozen(old, gated=gated) != _frozen(new, gated=gated):
        causes.append(forbidden_field("spec", _CHANGEABLE))
    return causes


def _frozen(spec: Json, *, gated: bool) -> Json:
    free = {"tolerations", "schedulingGates", "activeDeadlineSeconds"}
    free |= {"nodeSelector"} if gated else set()
    kept = {field: value for field, value in spec.items() if field not in free}
    if gated:
        kept["affinity"] = without_node_affinity(spec)
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{**container, "image": ""} for container in kept[field]]
    return kept


def bind(pod: Json, binding: Json, *, now: float) -> None:
    """Bind a pod to the node of a Binding. Raises a 409 if it has a node or gates."""
    name = pod["metadata"]["name"]
    node = dig(binding, "target", "name")
    if not node:
        raise ApiError(400, "BadRequest", "target.name: Required value")
    if why := _unbindable(pod, binding):
        raise conflict(Subject("", "pods/binding", name), why)
    annotations = dig(binding, "metadata", "annotations")
    if annotations:
        pod["metadata"]["annotations"] = {
            **(pod["metadata"].get("annotations") or {}),
            **annotations,
        }
    pod["spec"]["nodeName"] = node
    status = pod.setdefault("status", {})
    scheduled = {"type": "PodScheduled", "status": "True"}
    status["conditions"] = with_condition(status.get("conditions"), scheduled, now=now)


def _unbindable(pod: Json, binding: Json) -> str:
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    wanted = dig(binding, "metadata", "uid")
    if wanted and wanted != uid:
        return f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if gates(pod["spec"]):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def grace_period(pod: Json, requested: Any) -> int:
    """Return the grace period of a deleted pod in seconds; 0 without a node."""
    if not pod["spec"].get("nodeName") or dig(pod, "status", "phase") in {"Succeeded", "Failed"}:
        return 0
    if requested is not None:
        return int(requested)
    return int(pod["spec"].get("terminationGracePeriodSeconds", 30))


def gates(spec: Json) -> list[str]:
    """Return the names of a pod's gates, in order."""
    return [gate.get("name", "") for gate in spec.get("schedulingGates") or ()]


def gate_faults(spec: Json, field: str) -> Iterator[Cause]:
    """Return all syntax errors of the gates of a pod or template."""
    names = gates(spec)
    for index, name in enumerate(names):
        if fault := label_key_fault(name):
            yield invalid_value(f"{field}.schedulingGates[{index}]", name, fault)
        elif name in names[:index]:
            yield duplicate(f"{field}.schedulingGates[{index}]", name)


def gate_additions(old: Json, new: Json) -> Iterator[Cause]:
    """Return an error for each gate that an update adds: gates can only be set at creation."""
    had = gates(old)
    for index, name in enumerate(gates(new)):
        if name not in had:
            why = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden_field(f"spec.schedulingGates[{index}].name", why)


def widenings(old: Json, new: Json) -> Iterator[Cause]:
    """Return an error for each change that makes more nodes eligible: constraints of gated pods can only be narrowed."""
    selector = new.get("nodeSelector")
    if not (old.get("nodeSelector") or {}).items() <= (selector or {}).items():
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", selector, why)
    before, after = _terms(old), _terms(new)
    if not before:
        return
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if after is None or len(before) != len(after):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid_value(field, after, why)
        return
    for index, (had, has) in enumerate(zip(before, after, strict=True)):
        if not _narrowed(had, has):
            why = "only additions are allowed (no mutations or deletions)"
            yield invalid_value(f"{field}[{index}]", has, why)


def _terms(spec: Json) -> list[Json] | None:
    terms: list[Json] | None = dig(spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
    return terms


def _narrowed(old: Json, new: Json) -> bool:
    """Return whether a term kept its requirements, with additions only at the end; an empty term, which matches nothing, must stay empty."""
    if not any(map(old.get, ("matchExpressions", "matchFields"))):
        return not any(map(new.get, ("matchExpressions", "matchFields")))
    return all(_begins(old, new, part) for part in ("matchExpressions", "matchFields"))


def _begins(old: Json, new: Json, part: str) -> bool:
    had: list[Any] = old.get(part) or []
    return (new.get(part) or [])[: len(had)] == had


def without_node_affinity(spec: Json) -> Json:
    """Return a spec's affinity without required node affinity, which gated pods may be given."""
    kept = {kind: terms for kind, terms in (spec.get("affinity") or {}).items() if terms}
    kept.pop("nodeAffinity", None)
    return kept
