"""PodDisruptionBudgets: status, and the check of evictions."""

import math
import re
from collections.abc import Sequence
from typing import Any

from sandbox.apiserver.errors import ApiError, Cause, invalid_value, too_many_requests
from sandbox.apiserver.kinds.behaviour import Behaviour
from sandbox.apiserver.storage.objects import (
    Json,
    condition,
    dig,
    labels_of,
    meta,
    name_of,
    with_condition,
)
from sandbox.apiserver.storage.selectors import matches_selector, selector_faults


class PodDisruptionBudgets(Behaviour):
    """A budget has minAvailable or maxUnavailable, not both."""

    counts_generations = True
    has_status = True

    def prepare_create(self, obj: Json, *, now: float) -> None:
        obj["status"] = {
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }

    def validate(self, obj: Json) -> list[Cause]:
        spec = obj.get("spec") or {}
        bounds = {
            name: spec[name]
            for name in ("minAvailable", "maxUnavailable")
            if spec.get(name) is not None
        }
        causes = list(selector_faults(spec.get("selector"), "spec.selector"))
        if len(bounds) > 1:
            why = "minAvailable and maxUnavailable cannot be both set"
            causes.append(invalid_value("spec", spec, why))
        why = "must be a number of pods or a percentage, neither below 0"
        causes += [
            invalid_value(f"spec.{name}", bound, why)
            for name, bound in bounds.items()
            if not re.fullmatch(r"\d+%?", str(bound), re.ASCII)
        ]
        return causes


def matching(budgets: Sequence[Json], pod: Json) -> list[Json]:
    """Return the budgets of the pod's namespace that select it."""
    return [
        budget
        for budget in budgets
        if matches_selector(dig(budget, "spec", "selector"), labels_of(pod))
    ]


def budget_status(budget: Json, pods: Sequence[Json], *, expected: int, now: float) -> Json:
    """Return a budget's status. `pods`: those it selects; `expected`: the replicas that their owners specify."""
    spec = budget.get("spec") or {}
    healthy = sum(1 for pod in pods if _is_healthy(pod))
    desired = _desired(spec, expected)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    enough = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": meta(budget).get("generation", 1),
    }
    return {
        "observedGeneration": meta(budget).get("generation", 1),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": with_condition(dig(budget, "status", "conditions"), enough, now=now),
    }


def _desired(spec: Json, expected: int) -> int:
    if (minimum := spec.get("minAvailable")) is not None:
        return _scaled(minimum, expected)
    if (maximum := spec.get("maxUnavailable")) is not None:
        return max(0, expected - _scaled(maximum, expected))
    return max(0, expected - 1)


def _scaled(value: Any, total: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * total / 100)
    return int(value)


def _is_ready(pod: Json) -> bool:
    return (condition(pod, "Ready") or {}).get("status") == "True"


def _is_healthy(pod: Json) -> bool:
    return _is_ready(pod) and not meta(pod).get("deletionTimestamp")


def check_eviction(pod: Json, budgets: Sequence[Json]) -> None:
    """Check whether a pod may be evicted. Raises the Eviction API's 429 or 500 if not."""
    finished = dig(pod, "status", "phase") in {"Succeeded", "Failed", "Pending"}
    if finished or meta(pod).get("deletionTimestamp") or not budgets:
        return
    if len(budgets) > 1:
        raise ApiError(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, "
            "which the eviction subresource does not support.",
        )
    (budget,) = budgets
    status = budget.get("status") or {}
    if not _is_ready(pod) and _may_go_unready(budget, status):
        return
    name = name_of(budget)
    if status.get("observedGeneration", 0) < meta(budget).get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.")
    if status.get("disruptionsAllowed", 0) <= 0:
        raise _refused(
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )


def _may_go_unready(budget: Json, status: Json) -> bool:
    if dig(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(healthy >= desired > 0)


def _refused(cause: str) -> ApiError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return too_many_requests(message, [Cause("DisruptionBudget", cause, "")])
