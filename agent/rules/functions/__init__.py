"""PromQL's functions, as plain functions of windows, vectors and numbers: all there are, by the names they have in expressions.

They answer as those of Prometheus 2.42 do, down to NaN, infinities and the order of additions. None reads a clock or raises for a number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.rules.functions import counts, numerics, overtime, pointwise, rates, regressions, sums
from agent.rules.functions.histograms import histogram_quantile
from agent.rules.functions.relabel import Relabelling, joining, replacing

__all__ = [
    "POINTWISE",
    "RANGES",
    "RangeFunction",
    "Relabelling",
    "histogram_quantile",
    "joining",
    "replacing",
]


@dataclass(frozen=True, slots=True)
class RangeFunction:
    """A function of one series over a range of time."""

    compute: Callable[..., float | None]
    """`compute(window, start, end, *numbers)`: the range's bounds in ms after any offset, and the scalar arguments in their order.

    None where there is no result for this series.
    """
    keeps_name: bool = False
    """Whether the result has the metric's name still."""
    wants_time: bool = False
    """Whether the time of evaluation (ms, before any offset) comes before the scalar arguments."""


RANGES: Mapping[str, RangeFunction] = {
    "avg_over_time": RangeFunction(sums.average),
    "changes": RangeFunction(counts.changes),
    "count_over_time": RangeFunction(overtime.count),
    "delta": RangeFunction(rates.delta),
    "deriv": RangeFunction(regressions.deriv),
    "idelta": RangeFunction(rates.idelta),
    "increase": RangeFunction(rates.increase),
    "irate": RangeFunction(rates.irate),
    "last_over_time": RangeFunction(overtime.last, keeps_name=True),
    "max_over_time": RangeFunction(overtime.highest),
    "min_over_time": RangeFunction(overtime.lowest),
    "predict_linear": RangeFunction(regressions.predict_linear, wants_time=True),
    "present_over_time": RangeFunction(overtime.present),
    "quantile_over_time": RangeFunction(overtime.quantile_over_time),
    "rate": RangeFunction(rates.rate),
    "resets": RangeFunction(counts.resets),
    "stddev_over_time": RangeFunction(sums.deviation),
    "stdvar_over_time": RangeFunction(sums.variance),
    "sum_over_time": RangeFunction(sums.summed),
}

POINTWISE: Mapping[str, Callable[..., float | None]] = {
    "abs": abs,
    "ceil": pointwise.ceil,
    "clamp": pointwise.clamp,
    "clamp_max": pointwise.at_most,
    "clamp_min": pointwise.at_least,
    "exp": pointwise.exp,
    "floor": numerics.floor,
    "ln": pointwise.ln,
    "log10": pointwise.log10,
    "log2": pointwise.log2,
    "round": pointwise.rounded,
    "sgn": pointwise.sgn,
    "sqrt": pointwise.sqrt,
}
"""Functions of a value and, behind it, of scalar arguments. None where there is no result: `clamp` with its bounds the wrong way round."""
