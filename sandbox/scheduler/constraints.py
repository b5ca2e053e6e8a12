"""Node selector, affinity and taints, with kube-scheduler's reasons. No I/O."""

from collections.abc import Iterable, Mapping
from typing import Any

from plimsoll.labels import int64
from sandbox.client.objects import Object

_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}


def violation(pod: Object, node: Object) -> str | None:
    """Return why this node is infeasible for this pod, or None."""
    tolerations = pod["spec"].get("tolerations") or []
    if node.get("spec", {}).get("unschedulable") and not _tolerated(_UNSCHEDULABLE, tolerations):
        return "node(s) were unschedulable"
    if (taint := untolerated(pod, node)) is not None:
        return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if not matches_selector(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def untolerated(pod: Object, node: Object) -> Object | None:
    """Return the first taint that keeps a pod from a node; None if there is none."""
    tolerations = pod["spec"].get("tolerations") or []
    for taint in node.get("spec", {}).get("taints") or []:
        if taint.get("effect") in {"NoSchedule", "NoExecute"} and not _tolerated(
            taint, tolerations
        ):
            return dict(taint)
    return None


def soft_taints(pod: Object, node: Object) -> int:
    """Return the number of PreferNoSchedule taints of a node that the pod does not tolerate."""
    tolerations = pod["spec"].get("tolerations") or []
    taints = node.get("spec", {}).get("taints") or []
    soft = [taint for taint in taints if taint.get("effect") == "PreferNoSchedule"]
    return sum(not _tolerated(taint, tolerations) for taint in soft)


def _tolerated(taint: Mapping[str, str], tolerations: Iterable[Mapping[str, str]]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    if (effect := toleration.get("effect")) and effect != taint["effect"]:
        return False
    if (key := toleration.get("key")) and key != taint["key"]:
        return False
    value, tainted = toleration.get("value", ""), taint.get("value", "")
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(key) and value == tainted
        case "Gt" | "Lt" as operator:
            left, right = int64.parse_canonical(tainted), int64.parse_canonical(value)
            return bool(key) and _ordered(left, operator, right)
        case _:
            return False


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Return whether a LabelSelector selects labels; an empty one selects none here."""
    values, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    return (
        bool(values or expressions)
        and all(labels.get(key) == value for key, value in values.items())
        and all(expression_matches(expression, labels) for expression in expressions)
    )


def matches_labels(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a LabelSelector matches labels; none matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        expression_matches(one, labels) for one in selector.get("matchExpressions") or []
    )


def matches_selector(pod: Object, node: Object) -> bool:
    """Return whether a pod's node selector and required node affinity match a node."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    values = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in values.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term(term, labels, fields) for term in required.get("nodeSelectorTerms") or [])


def _term(term: Object, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions, on_fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    # A term without requirements selects nothing.
    return (
        bool(expressions or on_fields)
        and all(expression_matches(expression, labels) for expression in expressions)
        and all(expression_matches(expression, fields) for expression in on_fields)
    )


def expression_matches(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """Return whether a label, or field, meets a requirement of a selector."""
    value = values.get(expression["key"])
    allowed = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in allowed
        case "NotIn":  # also true of a node without the label
            return value not in allowed
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(value, operator, allowed)
        case _:
            return False


def _compares(value: str | None, operator: str, allowed: list[str]) -> bool:
    if value is None or len(allowed) != 1:
        return False
    return _ordered(int64.parse(value), operator, int64.parse(allowed[0]))


def _ordered(left: int | None, operator: str, right: int | None) -> bool:
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right
