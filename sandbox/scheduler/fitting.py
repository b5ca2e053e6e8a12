"""Which nodes have enough free resources for a pod, and kube-scheduler's message if none has. No I/O."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from plimsoll import quantity
from sandbox.client.objects import Object
from sandbox.scheduler.constraints import violation

Refusals = Mapping[str, tuple[str, ...]]
"""The reasons of each rejected node; there may be several, or none."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The feasible nodes in the given order, and the reasons of the others."""

    nodes: tuple[Object, ...]
    refused: Refusals


Obstacle = Callable[[Object, Object], str | None]
"""Returns why other pods keep a pod from a node, or None."""


def _alone(_pod: Object, _node: Object) -> str | None:
    """Return None: other pods are not considered."""
    return None


def fit(
    pod: Object,
    nodes: Iterable[Object],
    used: Mapping[str, Mapping[str, Fraction]],
    obstacle: Obstacle = _alone,
) -> Fit:
    """Divide nodes into feasible and rejected ones, given the use of each."""
    fitting: list[Object] = []
    refused: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        reason = violation(pod, node) or obstacle(pod, node)
        if reasons := (reason,) if reason else _shortages(pod, node, used.get(name, {})):
            refused[name] = reasons
        else:
            fitting.append(node)
    return Fit(tuple(fitting), refused)


def requests(pod: Object) -> dict[str, Fraction]:
    """Return a pod's effective request: all containers together, or its largest init container if that is more."""
    spec = pod["spec"]
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for init in spec.get("initContainers") or []:
        # A sidecar keeps running beside all containers that start after it.
        with_it = _sum(sidecars, _container(init))
        if init.get("restartPolicy") == "Always":
            sidecars = with_it
        peak = _max(peak, with_it)
    running = sidecars
    for container in spec["containers"]:
        running = _sum(running, _container(container))
    return _sum(_max(running, peak), _parsed(spec.get("overhead") or {}), {"pods": Fraction(1)})


def usage(placed: Iterable[tuple[str, Object]]) -> dict[str, dict[str, Fraction]]:
    """Return the use of each node from (node name, pod) pairs. Finished pods use nothing."""
    used: dict[str, dict[str, Fraction]] = {}
    for node, pod in placed:
        if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            used[node] = _sum(used.get(node, {}), requests(pod))
    return used


def message(total: int, refusals: Iterable[Sequence[str]]) -> str:
    """`0/3 nodes are available: 1 <text>, 2 <other text>.`, nodes grouped by identical text."""
    if total == 0:
        return "no nodes available to schedule pods"
    counts = Counter(reason for reasons in refusals for reason in reasons)
    grouped = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{total} nodes are available:" + (f" {grouped}." if grouped else "")


def _shortages(pod: Object, node: Object, used: Mapping[str, Fraction]) -> tuple[str, ...]:
    allocatable = _parsed(node.get("status", {}).get("allocatable") or {})
    short = [
        name
        for name, amount in requests(pod).items()
        if amount and amount + used.get(name, 0) > allocatable.get(name, 0)
    ]
    return tuple("Too many pods" if name == "pods" else f"Insufficient {name}" for name in short)


def _container(container: Object) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    # A limit without a request is the request, as the API server's defaulting has it.
    return _parsed({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _parsed(amounts: Mapping[str, str | int]) -> dict[str, Fraction]:
    return {name: quantity.exact(str(amount)) for name, amount in amounts.items()}


def _sum(*amounts: Mapping[str, Fraction]) -> dict[str, Fraction]:
    names = dict.fromkeys(name for amount in amounts for name in amount)
    return {
        name: sum((amount.get(name, Fraction(0)) for amount in amounts), Fraction(0))
        for name in names
    }


def _max(*amounts: Mapping[str, Fraction]) -> dict[str, Fraction]:
    names = dict.fromkeys(name for amount in amounts for name in amount)
    return {name: max(amount.get(name, Fraction(0)) for amount in amounts) for name in names}
