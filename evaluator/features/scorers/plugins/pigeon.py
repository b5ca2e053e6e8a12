"""Places each pod to optimize an objective over the whole cluster: kube-safe-scheduler's `pigeon`.

For every node with enough free resources, the objective is computed with the pod on it: a value of the whole cluster. The
lowest value scores 10, the highest 1, others linearly in between; nodes without room or with unknown capacity or
requests score 0. Unknown nodes do not count in the objective.

Objectives get utilisations of shape (nodes, resources): `before`, and `after` with the pod on each node. The values for N
nodes are computed in O(N log N) from sums over all nodes, by removing and adding one node. Sums are of distances from
a median, without the node farthest from it: removing that node from a sum would leave only rounding errors.

If the values differ by less than 1 %, they are a tie, and all score 10. With --pigeonTie=value the 1 % is relative to
the value: one pod changes an objective over N nodes by about 1/N, so from a few hundred nodes on everything is a tie.
`--pigeonTie=change` is relative to the change that the pod makes, which works for any number of nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import Mask
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import (
    BEST,
    LARGEST,
    RESOURCES,
    UNITS,
    ClusterSnapshot,
    Demands,
    NodeRejection,
    ScorerResult,
    Scores,
    WhenMissing,
    demand,
    when_missing,
)
from plimsoll import flags
from plimsoll.flags import option

PRIORITY = "pigeon-holing"
_UNKNOWN = "capacity or requests of the node are unknown"
_TIE = 0.01
_SLACK = (
    1e-9  # For rounding of sums in doubles; kube-scheduler has already checked that the pod fits.
)
_FULLEST = 1e100  # Its square does not overflow.


def load_balance(before: Floats, after: Floats) -> Floats:
    """Return the standard deviation of the first resource's utilisation."""
    return _deviation(before[:, :1], after[:, :1], np.ones((len(before), 1)))


def consolidate(before: Floats, after: Floats) -> Floats:
    """Return how far the first resource's utilisations are from 0 or 1.

    For their mean a it is 1 minus the root mean square of (a - x) / a below the mean and (x - a) / (1 - a) above; 0
    if a is 0, or 1 and more.
    """
    x, y = before[:, 0], after[:, 0]
    count = len(x)
    if not count:
        return np.zeros(0)
    centre = _median(x)
    far = int(np.argmax(np.abs(x - centre)))
    x, y = x - centre, y - centre
    mean = (_others(x, far) + y) / count
    level = centre + mean
    with np.errstate(all="ignore"):
        total = _squares(np.sort(np.delete(x, far)), mean, level)
        others = _swapped(total, _square(x, mean, level), _square(x[far], mean, level), far)
        value = 1.0 - np.sqrt((np.maximum(others, 0.0) + _square(y, mean, level)) / count)
    return np.where((level <= 0.0) | (level >= 1.0), 0.0, value)


def bin_pack(before: Floats, after: Floats, demand_variation: float) -> Floats:
    """Return the absolute difference of two coefficients of variation of vectors: the nodes' utilisations and the demand.

    For mean m and covariance C of the utilisations, capped at 1, it is sqrt(m^T C m) / m^T m: the deviation of the
    utilisations' projections on their mean. 0 if all nodes are idle.
    """
    before, after = np.clip(before, 0.0, 1.0), np.clip(after, 0.0, 1.0)
    mean = before.mean(axis=0) + (after - before) / max(len(before), 1) if len(before) else before
    squared = np.einsum("ni,ni->n", mean, mean)
    with np.errstate(all="ignore"):
        relative = _deviation(before, after, mean) / squared
    return np.abs(np.where(np.isfinite(relative), relative, 0.0) - demand_variation)


def variation(mean: Floats, covariance: Floats) -> float:
    """Return the coefficient of variation of a vector; 0 if its mean is 0 or the result is not finite."""
    with np.errstate(all="ignore"):
        coefficient = np.sqrt(np.maximum(mean @ covariance @ mean, 0.0)) / (mean @ mean)
    return float(coefficient) if np.isfinite(coefficient) else 0.0


def _deviation(before: Floats, after: Floats, toward: Floats) -> Floats:
    """Return the standard deviation of all nodes' utilisations projected on `toward`, which has a row per changed node."""
    count = len(before)
    if not count:
        return np.zeros(0)
    centre = np.array([_median(column) for column in before.T])
    x, y = before - centre, after - centre
    far = int(np.argmax(np.einsum("ni,ni->n", x, x)))
    others = max(count - 1, 1)
    mean = np.einsum("ni,ni->n", _others(x, far), toward) / others
    rest = np.delete(x, far, axis=0)
    total = np.einsum("ni,ni->n", toward @ (rest.T @ rest), toward)
    own = np.einsum("ni,ni->n", x, toward)
    squares = _swapped(total, own**2, (toward @ x[far]) ** 2, far)
    scatter = np.maximum(squares - others * mean**2, 0.0)
    placed = np.einsum("ni,ni->n", y, toward)
    deviation: Floats = np.sqrt((scatter + (count - 1) / count * (placed - mean) ** 2) / count)
    return deviation


def _others(values: Floats, far: int) -> Floats:
    """Return, for each index of the first axis, the sum over all others; `far` is the index of the largest."""
    rest = np.delete(values, far, axis=0).sum(axis=0)
    return _swapped(rest, values, values[far], far)


def _swapped(rest: Floats, own: Floats, largest: Floats, far: int) -> Floats:
    """Return the sums over all nodes but `far`, minus each node's own share, plus that of `far`; unchanged for `far`."""
    total: Floats = rest - own + largest
    total[far] = np.broadcast_to(rest, total.shape)[far]
    return total


def _median(values: Floats) -> float:
    """Return the lower median: one of the values, so that its distance from itself is exactly 0."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])


def _square(x: Floats | np.float64, mean: Floats, level: Floats) -> Floats:
    """Return the square of one node's share in `consolidate`."""
    square: Floats = ((x - mean) / np.where(x < mean, level, 1.0 - level)) ** 2
    return square


def _squares(x: Floats, mean: Floats, level: Floats) -> Floats:
    """Return the sum of `_square` over sorted x, for each mean."""
    below = np.searchsorted(x, mean)
    low, low2 = _sums(x)[below], _sums(x * x)[below]
    high, high2 = _sums(x[::-1])[len(x) - below], _sums((x * x)[::-1])[len(x) - below]
    lower = np.maximum(below * mean**2 - 2 * mean * low + low2, 0.0)
    upper = np.maximum((len(x) - below) * mean**2 - 2 * mean * high + high2, 0.0)
    squares: Floats = lower / level**2 + upper / (1.0 - level) ** 2
    return squares


def _sums(values: Floats) -> Floats:
    """Return the prefix sums, starting with 0."""
    return np.concatenate(([0.0], np.cumsum(values)))


class Objective(StrEnum):
    """Values of --pigeonObjective."""

    LOAD_BALANCE = "load-balance"
    CONSOLIDATE = "consolidate"
    BIN_PACK = "bin-pack"


class TieOf(StrEnum):
    """Values of --pigeonTie."""

    VALUE = "value"
    CHANGE = "change"


def _resources(text: str) -> int:
    """Return the number of counted resources. Raises ValueError."""
    if text not in {"1", "2", "3", "4", "5"}:
        raise ValueError(f"not a number from 1 to 5: {text!r}")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class PigeonOptions:
    """Scorer `pigeon`."""

    pigeon_objective: str = option(
        "pigeonObjective",
        Objective.BIN_PACK.value,
        "the placement objective: load-balance (equal usage), consolidate (nodes full or empty) or bin-pack (usage varies "
        "among nodes as requests vary among pods, so that later pods fit)",
        metavar="OBJECTIVE",
        parse=flags.choice(*Objective),
    )
    pigeon_resources: int = option(
        "pigeonResources",
        2,
        "how many of cpu, memory, pods, nvidia.com/gpu and ephemeral-storage count, in this order; load-balance and "
        "consolidate use the others only to check free resources",
        metavar="N",
        parse=_resources,
    )
    pigeon_tie: str = option(
        "pigeonTie",
        TieOf.CHANGE.value,
        "nodes are a tie, and score 10, if the objective differs by less than 1% among them: of its value, or of the change "
        "that the pod makes. With value, most placements are a tie from a few hundred nodes on",
        metavar="OF",
        parse=flags.choice(*TieOf),
    )
    pigeon_when_missing: WhenMissing = option(
        "pigeonWhenMissing",
        WhenMissing.IGNORE,
        "a node with unknown capacity or requests: ignore scores it 0, refuse also rejects it",
        metavar="WHAT",
        parse=when_missing,
    )

    @property
    def no_demands(self) -> Demands:
        """The statistics before the first pod."""
        return Demands()


class Pigeon:
    """Scores by one objective. Rejects no nodes, except unknown ones if configured."""

    priorities: Sequence[str] = (PRIORITY,)
    metrics: Sequence[str] = ()

    def __init__(self, options: PigeonOptions) -> None:
        self._objective = Objective(options.pigeon_objective)
        self._counted = RESOURCES[: options.pigeon_resources]
        self._tie = TieOf(options.pigeon_tie)
        self._refuse = options.pigeon_when_missing is WhenMissing.REFUSE

    @property
    def predicates(self) -> Sequence[str]:
        """One predicate if unknown nodes are rejected."""
        return (PRIORITY,) if self._refuse else ()

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """Return the result. The pod's request is included in `view.demands`."""
        capacity, used = self._table(view, view.allocatable), self._table(view, view.requested)
        known = _known(capacity, used)
        after = used + demand(pod)[: len(self._counted)]
        fits = known & (after <= capacity * (1.0 + _SLACK)).all(axis=1)
        variation = _variation(view.demands.seen(pod), capacity[known])
        is_full = _utilisation(used, capacity)[known]
        values = np.full(len(view.nodes), np.nan)
        values[known] = self._values(is_full, _utilisation(after, capacity)[known], variation)
        values[~fits] = np.nan
        before = 0.0
        if self._tie is TieOf.CHANGE and fits.any():
            before = float(self._values(is_full, is_full, variation)[0])
        facts = {
            "objective": values,
            "fits": np.where(known, fits.astype(float), np.nan),
            "demand_variation": np.full(len(view.nodes), variation),
        }
        return ScorerResult(
            refusals={PRIORITY: (NodeRejection(~known, _UNKNOWN),)} if self._refuse else {},
            scores={PRIORITY: self._scores(values, before)},
            facts=facts,
            missing=~known,
        )

    def _table(self, view: ClusterSnapshot, amounts: Mapping[Resource, Floats]) -> Floats:
        """Return a table (nodes, resources) in `UNITS`; NaN for invalid amounts."""
        columns = [view.of(amounts, resource) for resource in self._counted]
        table = np.stack(columns, axis=1) / UNITS[: len(columns)]
        return np.where((table >= 0.0) & (table < np.inf), np.minimum(table, LARGEST), np.nan)

    def _values(self, before: Floats, after: Floats, demand_variation: float) -> Floats:
        match self._objective:
            case Objective.LOAD_BALANCE:
                return load_balance(before, after)
            case Objective.CONSOLIDATE:
                return consolidate(before, after)
            case Objective.BIN_PACK:
                return bin_pack(before, after, demand_variation)

    def _scores(self, values: Floats, before: float) -> Scores:
        """Return 10 for the lowest value, 1 for the highest, 0 for NaN; rounded half up. Ties are relative to `before`."""
        fits: Mask = ~np.isnan(values)
        scores = np.zeros(len(values), dtype=np.int64)
        if not fits.any():
            return scores
        low, high = values[fits].min(), values[fits].max()
        span = high - low
        tie = _TIE * np.abs(values[fits] - before).max()
        if span == 0.0 or span < tie:
            scores[fits] = BEST
        else:
            scores[fits] = np.floor(1.5 + (BEST - 1) * (high - values[fits]) / span)
        return np.clip(scores, 0, BEST)


def _known(capacity: Floats, used: Floats) -> Mask:
    """Return the nodes with known amounts of all counted resources."""
    known: Mask = np.logical_not(np.isnan(capacity + used).any(axis=1))
    return known


def _utilisation(used: Floats, capacity: Floats) -> Floats:
    """Return the used shares; 1 without capacity."""
    with np.errstate(all="ignore"):
        return np.where(capacity > 0.0, np.minimum(used / capacity, _FULLEST), 1.0)


def _variation(demands: Demands, capacity: Floats) -> float:
    """Return the coefficient of variation of requests, relative to the average node."""
    if demands.mean is None or demands.covariance is None or not len(capacity):
        return 0.0
    average = capacity.mean(axis=0)
    counted = len(average)
    with np.errstate(all="ignore"):
        scale = np.where(average > 0.0, 1.0 / average, 0.0)
        mean = demands.mean[:counted] * scale
        covariance = demands.covariance[:counted, :counted] * np.outer(scale, scale)
    return variation(mean, covariance)
