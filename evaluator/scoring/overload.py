"""The risk that a node is overloaded: its use is taken for a beta-distributed share of what it has.

The distribution is the one whose mean and deviation are those that were measured, the mean moved up by what the pod asks for.
The risk is the probability of more than a given share. Whatever is not known is NaN, and so is what follows from it.
"""

from dataclasses import dataclass

import numpy as np

from evaluator.model.node_index import Floats
from evaluator.scoring import beta

SHARPEST = 1e16
"""With alpha and beta beyond it, the deviation is lost beside the mean in doubles: as good as none."""


@dataclass(frozen=True, slots=True)
class Use:
    """Of one resource or several, by node; in the resource's unit."""

    capacity: Floats
    free: Floats
    """On average, with the forecast."""
    deviation: Floats
    """Of `free`; NaN where only the mean is known: that is taken for steady."""
    young: Floats
    """What pods ask for that are too young to be in `free`."""
    request: Floats
    """What the pod asks for."""

    @property
    def used(self) -> Floats:
        """On average, with young pods; infinite where that is more than a double holds."""
        with np.errstate(over="ignore"):
            found: Floats = np.maximum(self.capacity - self.free, 0.0) + self.young
        return found

    @property
    def deviation_share(self) -> Floats:
        """Of the capacity, 0 to 1."""
        known = np.where(np.isnan(self.deviation), 0.0, self.deviation)
        found: Floats = np.clip(known / self.capacity, 0.0, 1.0)
        return found


@dataclass(frozen=True, slots=True)
class Overload:
    """How likely a node's use is above a limit."""

    mean: Floats
    """The share in use with the pod, 0 to 1."""
    deviation: Floats
    """Of that share, 0 to 1."""
    alpha: Floats
    beta: Floats
    """Both are NaN where the use is steady or no beta distribution has such a mean and deviation."""
    risk: Floats


def overload(use: Use, limit: float) -> Overload:
    """How likely more than a share `limit`, 0 to 1, is used.

    Nothing in use: not at all. No deviation: by the mean alone. A deviation larger than any beta distribution has of this mean:
    certainly. Where a node has none of a resource, a pod that asks for some meets certain overload, and any other none.
    """
    with np.errstate(all="ignore"):
        mean, deviation = _shares(use)
        spread = mean * (1.0 - mean)
        precision = spread / (deviation * deviation) - 1.0
        steady = (deviation == 0.0) | (precision > SHARPEST)
        fits = (mean > 0.0) & ~steady & (precision > 0.0)
        alpha = np.where(fits, mean * precision, np.nan)
        other = np.where(fits, (1.0 - mean) * precision, np.nan)
        risk = np.where(
            steady, np.where(mean > limit, 1.0, 0.0), beta.tails(limit, alpha, other)[1]
        )
        risk = np.where(steady | (fits & ~np.isnan(risk)), risk, 1.0)
        risk = np.where(mean == 0.0, 0.0, risk)
        risk = np.where(np.isnan(mean), np.nan, risk)
    return Overload(mean, deviation, alpha, other, risk)


def _shares(use: Use) -> tuple[Floats, Floats]:
    taken = use.used + use.request
    some = use.capacity > 0.0
    mean = np.clip(taken / use.capacity, 0.0, 1.0)
    # Of nothing, any share is as good as all of it: 1 and 1 are a risk of 1 whatever the limit.
    nothing = np.where(taken > 0.0, 1.0, 0.0 * taken)
    mean = np.where(some, mean, nothing)
    deviation = np.where(some, use.deviation_share, nothing)
    return mean, np.where(np.isnan(mean), np.nan, deviation)
