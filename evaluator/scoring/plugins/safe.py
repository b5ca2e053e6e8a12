"""Keep pods off nodes that could be overloaded, by what is in use and how much that varies.

By node and resource, CPU and memory: `overload` tells the risk that the use with the pod is above --safeUtilisation. Where
it is above --safeRisk for either, the node is refused. Scores are worked out for each resource, and the lower one counts; a
node of which one is not known is judged by the other.

`safe-overload`: 10 without risk, 0 at the accepted risk and above it: trunc(10 (1 - sqrt(risk / accepted))). Where no risk is
accepted, 10 without and 0 with any.
`safe-balance`: trunc(10 (1 - (mean + sqrt(deviation)) / 2) + 1/2), of shares: also among nodes that are all safe the emptier and
steadier ones are better.

In use is what was measured, and what those pods ask for that are too young to be in the measure: else many pods that come
at once would all go to the node that is idlest before the first. Without a deviation the use is taken for steady. A node
without any of a resource, where a pod asks for some, has the risk 1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.model import usage_metrics
from evaluator.model.node_index import Floats, Mask
from evaluator.model.pod_demand import PodView, Resource
from evaluator.scoring.overload import Overload, Use, overload
from evaluator.scoring.plugin import BEST, ScorerResult, Scores, WhenMissing, when_missing
from evaluator.scoring.snapshot import ClusterSnapshot, NodeRejection
from plimsoll import flags
from plimsoll.flags import option

OVERLOAD = "safe-overload"
BALANCE = "safe-balance"
_RESOURCES = (Resource.CPU, Resource.MEMORY)
_REASONS = (
    "the risk that its CPU is overloaded is too high",
    "the risk that its memory is overloaded is too high",
)
_UNKNOWN = "nothing is known of how much of its CPU and memory is in use"


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"not a number from 0 to 1: {text!r}")
    return number


@dataclass(frozen=True, kw_only=True)
class SafeOptions:
    """Flags of this scorer."""

    safe_utilisation: float = option(
        "safeUtilisation",
        0.9,
        "a node is overloaded when more than this share of its CPU or memory is in use",
        metavar="SHARE",
        parse=share,
    )
    safe_risk: float = option(
        "safeRisk",
        0.3,
        "the probability of overload from which on a node is refused",
        metavar="PROBABILITY",
        parse=share,
    )
    safe_forecast_weight: float = option(
        "safeForecastWeight",
        0.2,
        "how much a forecast counts beside the measured mean, where a node is annotated with one",
        metavar="SHARE",
        parse=share,
    )
    safe_priority: str = option(
        "safePriority",
        "overload",
        "what /scorers/safe/prioritize scores by: `overload`, the risk, or `balance`, the mean and the deviation",
        metavar="WHAT",
        parse=flags.choice("overload", "balance"),
    )
    safe_when_missing: WhenMissing = option(
        "safeWhenMissing",
        WhenMissing.IGNORE,
        "a node of which neither CPU nor memory use is known: `ignore` scores it 0, `refuse` filters it out",
        metavar="WHAT",
        parse=when_missing,
    )


class Safe:
    """The less likely overloaded, the better."""

    predicates: Sequence[str] = (OVERLOAD,)
    metrics: Sequence[str] = (
        usage_metrics.CPU_MEAN,
        usage_metrics.CPU_DEVIATION,
        usage_metrics.MEMORY_MEAN,
        usage_metrics.MEMORY_DEVIATION,
    )

    def __init__(self, options: SafeOptions | None = None) -> None:
        self._options = options or SafeOptions()
        both = (OVERLOAD, BALANCE)
        balanced = self._options.safe_priority == "balance"
        self.priorities: Sequence[str] = both[::-1] if balanced else both

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """The risk for CPU and memory, and what follows."""
        use = self._use(view, pod)
        found = overload(use, self._options.safe_utilisation)
        accepted = self._options.safe_risk
        missing: Mask = np.all(np.isnan(found.risk), axis=0)
        refusals = [
            NodeRejection(risk > accepted, reason)
            for risk, reason in zip(found.risk, _REASONS, strict=True)
        ]
        if self._options.safe_when_missing is WhenMissing.REFUSE:
            refusals.append(NodeRejection(missing, _UNKNOWN))
        scores = {OVERLOAD: overload_scores(found, accepted), BALANCE: balance_scores(found)}
        return ScorerResult({OVERLOAD: refusals}, scores, _facts(use, found), missing)

    def _use(self, view: ClusterSnapshot, pod: PodView) -> Use:
        """Arrays of resources and nodes."""
        shape = (len(_RESOURCES), len(view.nodes))
        capacity, free, deviation, forecast, young = np.full((5, *shape), np.nan)
        for row, resource in enumerate(_RESOURCES):
            capacity[row] = view.of(view.allocatable, resource)
            if (usage := view.usage.get(resource)) is not None:
                free[row], deviation[row] = usage.free, usage.deviation
                forecast[row] = usage.forecast
            young[row] = view.of(view.recently_bound, resource)
        known = np.isfinite(capacity) & np.isfinite(free)
        weight = self._options.safe_forecast_weight
        with np.errstate(all="ignore"):
            weighted = (1.0 - weight) * free + weight * forecast
        return Use(
            capacity=np.where(known, capacity, np.nan),
            free=np.where(known, np.where(np.isfinite(forecast), weighted, free), np.nan),
            deviation=np.where(np.isfinite(deviation), deviation, np.nan),
            young=np.where(np.isfinite(young), young, 0.0),
            request=_column(pod.requests.get(resource, 0.0) for resource in _RESOURCES),
        )


def overload_scores(found: Overload, accepted: float) -> Scores:
    """By the risk, as a part of the accepted one."""
    if accepted > 0.0:
        part = np.minimum(found.risk / accepted, 1.0)
    else:
        part = np.where(found.risk > 0.0, 1.0, found.risk)
    return _lower(np.trunc(BEST * (1.0 - np.sqrt(part))))


def balance_scores(found: Overload) -> Scores:
    """By mean and deviation."""
    load = (found.mean + np.sqrt(found.deviation)) / 2.0
    return _lower(np.trunc(BEST * (1.0 - load) + 0.5))


def _lower(scores: Floats) -> Scores:
    """Of the resources' scores, the lowest that is known; 0 where none is."""
    lowest = np.fmin.reduce(scores, axis=0)
    return np.where(np.isnan(lowest), 0.0, lowest).astype(np.int64)


def _column(amounts: Iterable[float]) -> Floats:
    return np.array([*amounts], dtype=np.float64)[:, np.newaxis]


def _facts(use: Use, found: Overload) -> dict[str, Floats]:
    tables = {
        "allocatable": use.capacity,
        "free": use.free,
        "deviation": use.deviation,
        "unmeasured": use.young,
        "used": use.used,
        "request": np.broadcast_to(use.request, use.free.shape),
        "mu": found.mean,
        "sigma": found.deviation,
        "alpha": found.alpha,
        "beta": found.beta,
        "risk": found.risk,
    }
    return {
        f"{resource}.{name}": table[row]
        for row, resource in enumerate(_RESOURCES)
        for name, table in tables.items()
    }
