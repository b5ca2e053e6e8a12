"""The risk that a node is overloaded: its usage is modelled as a beta-distributed share of its capacity.

The distribution has the measured mean and deviation, with the mean increased by the pod's request. The risk is the
probability of exceeding a given share. NaN means unknown, and propagates.
"""

from dataclasses import dataclass

import numpy as np

from evaluator.core.model.node_index import Floats
from evaluator.features.scorers.plugins import beta

SHARPEST = 1e16
"""Above this precision the deviation is lost in rounding, and usage counts as constant."""


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
