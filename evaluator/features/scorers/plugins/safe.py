"""Scores nodes by the risk of CPU or memory overload, from usage and its variation.

`overload` computes, per node and resource, the risk that usage including the pod exceeds --safeUtilisation. A node is
rejected if the risk exceeds --safeRisk for either resource. The score is the lower one of both resources; if one is
unknown, the other decides.

`safe-overload`: 10 without risk, 0 from the accepted risk on: trunc(10 (1 - sqrt(risk / accepted))). If no risk is
accepted, 10 without and 0 with any. `safe-balance`: trunc(10 (1 - (mean + sqrt(deviation)) / 2) + 1/2), of shares: it
also distinguishes safe nodes, preferring low and constant usage.

Usage is the measured usage plus the requests of pods bound too recently to be measured: otherwise a burst of pods
would go to the node that was idlest before it. Without a deviation, usage counts as constant. A node without a
requested resource has the risk 1.

Usage is modelled as a beta-distributed share of the capacity, with the measured mean and deviation and the mean
increased by the pod's request; the risk is the probability of exceeding a given share. NaN means unknown, and
propagates.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.core.model import resources
from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import Mask
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import (
    BEST,
    ClusterSnapshot,
    NodeRejection,
    ScorerResult,
    Scores,
    WhenMissing,
    when_missing,
)
from evaluator.features.scorers.plugins import beta
from plimsoll import flags
from plimsoll.flags import option

SHARPEST = 1e16
"""Above this precision the deviation is lost in rounding, and usage counts as constant."""
OVERLOAD = "safe-overload"
BALANCE = "safe-balance"
_RESOURCES = (Resource.CPU, Resource.MEMORY)
_REASONS = (
    "the risk that its CPU is overloaded is too high",
    "the risk that its memory is overloaded is too high",
)
_UNKNOWN = "its CPU and memory usage are unknown"


@dataclass(frozen=True, slots=True)
class Use:
    """Usage of one or several resources by node, in each resource's unit."""

    capacity: Floats
    free: Floats
    """The mean, including the forecast."""
    deviation: Floats
    """The deviation of `free`; NaN if unknown, which counts as constant usage."""
    recently_bound: Floats
    """Requests of pods bound too recently to be included in `free`."""
    request: Floats
    """The pod's request."""

    @property
    def used(self) -> Floats:
        """Mean usage including recently bound pods; infinite on overflow."""
        with np.errstate(over="ignore"):
            amount: Floats = np.maximum(self.capacity - self.free, 0.0) + self.recently_bound
        return amount

    @property
    def deviation_share(self) -> Floats:
        """The deviation as a share of the capacity, 0 to 1."""
        known = np.where(np.isnan(self.deviation), 0.0, self.deviation)
        share: Floats = np.clip(known / self.capacity, 0.0, 1.0)
        return share


@dataclass(frozen=True, slots=True)
class Overload:
    """The risk that usage exceeds a limit."""

    mean: Floats
    """The share in use including the pod, 0 to 1."""
    deviation: Floats
    """The deviation of that share, 0 to 1."""
    alpha: Floats
    beta: Floats
    """Both are NaN if usage is constant or no beta distribution has this mean and deviation."""
    risk: Floats


def overload(use: Use, limit: float) -> Overload:
    """Return the risk that more than the share `limit`, 0 to 1, is used.

    Special cases: no usage gives 0. Without deviation, the mean decides. A deviation larger than any beta
    distribution's gives 1. On a node without the resource, the risk is 1 for a pod that requests it, else 0.
    """
    with np.errstate(all="ignore"):
        mean, deviation = _shares(use)
        spread = mean * (1.0 - mean)
        precision = spread / (deviation * deviation) - 1.0
        steady = (deviation == 0.0) | (precision > SHARPEST)
        has_distribution = (mean > 0.0) & ~steady & (precision > 0.0)
        alpha = np.where(has_distribution, mean * precision, np.nan)
        other = np.where(has_distribution, (1.0 - mean) * precision, np.nan)
        risk = np.where(
            steady, np.where(mean > limit, 1.0, 0.0), beta.tails(limit, alpha, other)[1]
        )
        risk = np.where(steady | (has_distribution & ~np.isnan(risk)), risk, 1.0)
        risk = np.where(mean == 0.0, 0.0, risk)
        risk = np.where(np.isnan(mean), np.nan, risk)
    return Overload(mean, deviation, alpha, other, risk)


def _shares(use: Use) -> tuple[Floats, Floats]:
    taken = use.used + use.request
    has_capacity = use.capacity > 0.0
    mean = np.clip(taken / use.capacity, 0.0, 1.0)
    # Without capacity, mean and deviation of 1 give the risk 1 for any limit.
    nothing = np.where(taken > 0.0, 1.0, 0.0 * taken)
    mean = np.where(has_capacity, mean, nothing)
    deviation = np.where(has_capacity, use.deviation_share, nothing)
    return mean, np.where(np.isnan(mean), np.nan, deviation)


def share(text: str) -> float:
    """Return a number from 0 to 1. Raises ValueError."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"not a number from 0 to 1: {text!r}")
    return number


@dataclass(frozen=True, kw_only=True)
class SafeOptions:
    """Scorer `safe`."""

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
        "the probability of overload above which a node is rejected",
        metavar="PROBABILITY",
        parse=share,
    )
    safe_forecast_weight: float = option(
        "safeForecastWeight",
        0.2,
        "weight of a node's annotated forecast, relative to the measured mean",
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
        "a node with unknown CPU and memory usage: `ignore` scores it 0, `refuse` rejects it",
        metavar="WHAT",
        parse=when_missing,
    )


class Safe:
    """Prefers nodes with a lower risk of overload."""

    predicates: Sequence[str] = (OVERLOAD,)
    metrics: Sequence[str] = (
        resources.CPU_MEAN,
        resources.CPU_DEVIATION,
        resources.MEMORY_MEAN,
        resources.MEMORY_DEVIATION,
    )

    def __init__(self, options: SafeOptions | None = None) -> None:
        self._options = options or SafeOptions()
        both = (OVERLOAD, BALANCE)
        balanced = self._options.safe_priority == "balance"
        self.priorities: Sequence[str] = both[::-1] if balanced else both

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """Return the result by the risks for CPU and memory."""
        use = self._use(view, pod)
        risks = overload(use, self._options.safe_utilisation)
        accepted = self._options.safe_risk
        missing: Mask = np.all(np.isnan(risks.risk), axis=0)
        refusals = [
            NodeRejection(risk > accepted, reason)
            for risk, reason in zip(risks.risk, _REASONS, strict=True)
        ]
        if self._options.safe_when_missing is WhenMissing.REFUSE:
            refusals.append(NodeRejection(missing, _UNKNOWN))
        scores = {OVERLOAD: overload_scores(risks, accepted), BALANCE: balance_scores(risks)}
        return ScorerResult({OVERLOAD: refusals}, scores, _facts(use, risks), missing)

    def _use(self, view: ClusterSnapshot, pod: PodView) -> Use:
        """Return the usage as arrays of shape (resources, nodes)."""
        shape = (len(_RESOURCES), len(view.nodes))
        capacity, free, deviation, forecast, recently_bound = np.full((5, *shape), np.nan)
        for row, resource in enumerate(_RESOURCES):
            capacity[row] = view.of(view.allocatable, resource)
            if (usage := view.usage.get(resource)) is not None:
                free[row], deviation[row] = usage.free, usage.deviation
                forecast[row] = usage.forecast
            recently_bound[row] = view.of(view.recently_bound, resource)
        known = np.isfinite(capacity) & np.isfinite(free)
        weight = self._options.safe_forecast_weight
        with np.errstate(all="ignore"):
            weighted = (1.0 - weight) * free + weight * forecast
        return Use(
            capacity=np.where(known, capacity, np.nan),
            free=np.where(known, np.where(np.isfinite(forecast), weighted, free), np.nan),
            deviation=np.where(np.isfinite(deviation), deviation, np.nan),
            recently_bound=np.where(np.isfinite(recently_bound), recently_bound, 0.0),
            request=_column(pod.requests.get(resource, 0.0) for resource in _RESOURCES),
        )


def overload_scores(risks: Overload, accepted: float) -> Scores:
    """Return the scores by the risk, relative to the accepted risk."""
    if accepted > 0.0:
        part = np.minimum(risks.risk / accepted, 1.0)
    else:
        part = np.where(risks.risk > 0.0, 1.0, risks.risk)
    return _lower(np.trunc(BEST * (1.0 - np.sqrt(part))))


def balance_scores(risks: Overload) -> Scores:
    """Return the scores by mean and deviation."""
    load = (risks.mean + np.sqrt(risks.deviation)) / 2.0
    return _lower(np.trunc(BEST * (1.0 - load) + 0.5))


def _lower(scores: Floats) -> Scores:
    """Return the lowest known score of the resources; 0 if none is known."""
    lowest = np.fmin.reduce(scores, axis=0)
    return np.where(np.isnan(lowest), 0.0, lowest).astype(np.int64)


def _column(amounts: Iterable[float]) -> Floats:
    return np.array([*amounts], dtype=np.float64)[:, np.newaxis]


def _facts(use: Use, risks: Overload) -> dict[str, Floats]:
    tables = {
        "allocatable": use.capacity,
        "free": use.free,
        "deviation": use.deviation,
        "unmeasured": use.recently_bound,
        "used": use.used,
        "request": np.broadcast_to(use.request, use.free.shape),
        "mu": risks.mean,
        "sigma": risks.deviation,
        "alpha": risks.alpha,
        "beta": risks.beta,
        "risk": risks.risk,
    }
    return {
        f"{resource}.{name}": table[row]
        for row, resource in enumerate(_RESOURCES)
        for name, table in tables.items()
    }
