"""The columns of `kubectl get` for each kind, and the functions that compute their cells."""

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.apiserver.http import jsonpath
from sandbox.apiserver.http.tables import (
    AGE,
    NAME,
    Column,
    age,
    ready_containers,
    restarts,
    status_text,
)
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.kinds.workloads import selector_text
from sandbox.apiserver.storage.objects import Json, condition, dig, labels_of, meta

_ROLE = "node-role.kubernetes.io/"


def _text(*path: str, missing: str = "<none>") -> Any:
    """Return a cell function for the value at a path."""

    def cell(obj: Json, now: float) -> str:
        value = dig(obj, *path)
        return missing if value is None or value == "" else str(value)

    return cell


def _number(*path: str) -> Any:
    return lambda obj, now: dig(obj, *path) or 0


def _node_status(obj: Json, now: float) -> str:
    ready = condition(obj, "Ready")
    states = [
        "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    ]
    if dig(obj, "spec", "unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _node_roles(obj: Json, now: float) -> str:
    roles = [key.removeprefix(_ROLE) for key in labels_of(obj) if key.startswith(_ROLE)]
    return ",".join(sorted(filter(None, roles))) or "<none>"


def _node_address(kind: str) -> Any:
    def cell(obj: Json, now: float) -> str:
        addresses = dig(obj, "status", "addresses") or ()
        return next((str(a.get("address")) for a in addresses if a.get("type") == kind), "<none>")

    return cell


def _pod_ip(obj: Json, now: float) -> str:
    addresses = dig(obj, "status", "podIPs") or [{"ip": dig(obj, "status", "podIP")}]
    return str(addresses[0].get("ip") or "<none>")


def _readiness_gates(obj: Json, now: float) -> str:
    gates = dig(obj, "spec", "readinessGates") or ()
    if not gates:
        return "<none>"
    met = sum(
        1 for gate in gates if (condition(obj, gate["conditionType"]) or {}).get("status") == "True"
    )
    return f"{met}/{len(gates)}"


def _containers(field: str) -> Any:
    def cell(obj: Json, now: float) -> str:
        containers = dig(obj, "spec", "template", "spec", "containers") or ()
        return ",".join(str(container.get(field, "")) for container in containers)

    return cell


def _selector(obj: Json, now: float) -> str:
    return selector_text(dig(obj, "spec", "selector") or {}) or "<none>"


def _ready_replicas(obj: Json, now: float) -> str:
    return f"{dig(obj, 'status', 'readyReplicas') or 0}/{dig(obj, 'spec', 'replicas') or 0}"


def _event_age(*path: str) -> Any:
    def cell(obj: Json, now: float) -> str:
        since = dig(obj, *path) or obj.get("eventTime") or meta(obj).get("creationTimestamp")
        shown = age(since, now)
        count = obj.get("count") or dig(obj, "series", "count") or 1
        if path == ("lastTimestamp",) and count > 1:
            first = obj.get("firstTimestamp") or obj.get("eventTime")
            return f"{shown} (x{count} over {age(first, now)})"
        return shown

    return cell


def _event_object(obj: Json, now: float) -> str:
    about = obj.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_source(obj: Json, now: float) -> str:
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else str(component)


def _count(field: str) -> Any:
    return lambda obj, now: len(obj.get(field) or ())


def _ports(obj: Json, now: float) -> str:
    ports = dig(obj, "spec", "ports") or ()
    return (
        ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"
    )


def _plain_selector(obj: Json, now: float) -> str:
    return selector_text({"matchLabels": dig(obj, "spec", "selector") or {}}) or "<none>"


def _wide(name: str, cell: Any) -> Column:
    return Column(name, cell, priority=1)


_TEMPLATE = (
    _wide("Containers", _containers("name")),
    _wide("Images", _containers("image")),
    _wide("Selector", _selector),
)


def _api_service(obj: Json, now: float) -> str:
    service = dig(obj, "spec", "service")
    return f"{service['namespace']}/{service['name']}" if service else "Local"


def _available(obj: Json, now: float) -> str:
    available = condition(obj, "Available") or {"status": "Unknown"}
    reason = (
        f" ({available['reason']})"
        if available["status"] != "True" and available.get("reason")
        else ""
    )
    return f"{available['status']}{reason}"


_COLUMNS: Mapping[str, Sequence[Column]] = {
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _text("status", "nodeInfo", "kubeletVersion", missing="")),
        _wide("Internal-IP", _node_address("InternalIP")),
        _wide("External-IP", _node_address("ExternalIP")),
        _wide("OS-Image", _text("status", "nodeInfo", "osImage", missing="<unknown>")),
        _wide("Kernel-Version", _text("status", "nodeInfo", "kernelVersion", missing="<unknown>")),
        _wide(
            "Container-Runtime",
            _text("status", "nodeInfo", "containerRuntimeVersion", missing="<unknown>"),
        ),
    ),
    "pods": (
        NAME,
        Column("Ready", ready_containers),
        Column("Status", status_text),
        Column("Restarts", restarts),
        AGE,
        _wide("IP", _pod_ip),
        _wide("Node", _text("spec", "nodeName")),
        _wide("Nominated Node", _text("status", "nominatedNodeName")),
        _wide("Readiness Gates", _readiness_gates),
    ),
    "deployments.apps": (
        NAME,
        Column("Ready", _ready_replicas),
        Column("Up-to-date", _number("status", "updatedReplicas"), type="integer"),
        Column("Available", _number("status", "availableReplicas"), type="integer"),
        AGE,
        *_TEMPLATE,
    ),
    "replicasets.apps": (
        NAME,
        Column("Desired", _number("spec", "replicas"), type="integer"),
        Column("Current", _number("status", "replicas"), type="integer"),
        Column("Ready", _number("status", "readyReplicas"), type="integer"),
        AGE,
        *_TEMPLATE,
    ),
    "events": (
        Column("Last Seen", _event_age("lastTimestamp")),
        Column("Type", _text("type", missing="")),
        Column("Reason", _text("reason", missing="")),
        Column("Object", _event_object),
        _wide("Subobject", _text("involvedObject", "fieldPath", missing="")),
        _wide("Source", _event_source),
        Column("Message", lambda obj, now: str(obj.get("message") or "").strip()),
        _wide("First Seen", _event_age("firstTimestamp")),
        Column("Count", lambda obj, now: obj.get("count") or 1, type="integer", priority=1),
        Column("Name", NAME.cell, format="name", priority=1),
    ),
    "namespaces": (NAME, Column("Status", _text("status", "phase", missing="")), AGE),
    "leases.coordination.k8s.io": (
        NAME,
        Column("Holder", _text("spec", "holderIdentity", missing="")),
        AGE,
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        Column("Created At", _text("metadata", "creationTimestamp"), type="date"),
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", _text("spec", "minAvailable", missing="N/A")),
        Column("Max Unavailable", _text("spec", "maxUnavailable", missing="N/A")),
        Column("Allowed Disruptions", _number("status", "disruptionsAllowed"), type="integer"),
        AGE,
    ),
    "configmaps": (NAME, Column("Data", _count("data"), type="integer"), AGE),
    "secrets": (
        NAME,
        Column("Type", _text("type")),
        Column("Data", _count("data"), type="integer"),
        AGE,
    ),
    "serviceaccounts": (NAME, Column("Secrets", _count("secrets"), type="integer"), AGE),
    "services": (
        NAME,
        Column("Type", _text("spec", "type")),
        Column("Cluster-IP", _text("spec", "clusterIP")),
        Column("External-IP", lambda obj, now: "<none>"),
        Column("Port(s)", _ports),
        AGE,
        _wide("Selector", _plain_selector),
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", _number("value"), type="integer"),
        Column("Global-Default", lambda obj, now: bool(obj.get("globalDefault")), type="boolean"),
        AGE,
        Column("PreemptionPolicy", _text("preemptionPolicy", missing="PreemptLowerPriority")),
    ),
    "apiservices.apiregistration.k8s.io": (
        NAME,
        Column("Service", _api_service),
        Column("Available", _available),
        AGE,
    ),
}


def columns_of(resource: Resource) -> Sequence[Column]:
    """Return the columns of a resource: built-in, else of its CRD, else name and age."""
    if resource.printer_columns:
        return (NAME, *(_printer_column(spec) for spec in resource.printer_columns))
    return _COLUMNS.get(resource.collection, (NAME, AGE))


def _printer_column(spec: Json) -> Column:
    path, kind = spec["jsonPath"], spec.get("type", "string")

    def cell(obj: Json, now: float) -> Any:
        values = jsonpath.find(obj, path)
        if not values:
            return None
        if kind == "date":
            return age(str(values[0]), now)
        return values[0] if kind in {"integer", "number", "boolean"} else _shown(values)

    return Column(
        spec["name"],
        cell,
        type=kind,
        format=spec.get("format", ""),
        priority=spec.get("priority", 0),
        description=spec.get("description", ""),
    )


def _shown(values: list[Any]) -> str:
    return ",".join(str(item).lower() if isinstance(item, bool) else str(item) for item in values)
