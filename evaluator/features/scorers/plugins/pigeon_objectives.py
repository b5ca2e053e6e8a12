"""The objectives of `pigeon`: for each node, a value of the whole cluster with the pod on that node; lower is better.

Inputs are utilisations of shape (nodes, resources): `before`, and `after` with the pod on each node. The values for N
nodes are computed in O(N log N) from sums over all nodes, by removing and adding one node. Sums are of distances from
a median, without the node farthest from it: removing that node from a sum would leave only rounding errors.
"""

import numpy as np

from evaluator.core.model.node_index import Floats


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
