"""PromQL's functions, as plain functions of windows, vectors and numbers: all there are, by the names they have in expressions.

They answer as those of Prometheus 2.42 do, down to NaN, infinities and the order of additions. None reads a clock or raises for a number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.rules.promql.functions import (
    counters,
    math,
    numeric,
    over_time,
    over_time_stats,
    rates,
    regression,
)
from agent.rules.promql.functions.histograms import histogram_quantile
from agent.rules.promql.functions.labels import Relabelling, joining, replacing

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
    "avg_over_time": RangeFunction(over_time_stats.average),
    "changes": RangeFunction(counters.changes),
    "count_over_time": RangeFunction(over_time.count),
    "delta": RangeFunction(rates.delta),
    "deriv": RangeFunction(regression.deriv),
    "idelta": RangeFunction(rates.idelta),
    "increase": RangeFunction(rates.increase),
    "irate": RangeFunction(rates.irate),
    "last_over_time": RangeFunction(over_time.last, keeps_name=True),
    "max_over_time": RangeFunction(over_time.highest),
    "min_over_time": RangeFunction(over_time.lowest),
    "predict_linear": RangeFunction(regression.predict_linear, wants_time=True),
    "present_over_time": RangeFunction(over_time.present),
    "quantile_over_time": RangeFunction(over_time.quantile_over_time),
    "rate": RangeFunction(rates.rate),
    "resets": RangeFunction(counters.resets),
    "stddev_over_time": RangeFunction(over_time_stats.deviation),
    "stdvar_over_time": RangeFunction(over_time_stats.variance),
    "sum_over_time": RangeFunction(over_time_stats.summed),
}

POINTWISE: Mapping[str, Callable[..., float | None]] = {
    "abs": abs,
    "ceil": math.ceil,
    "clamp": math.clamp,
    "clamp_max": math.at_most,
    "clamp_min": math.at_least,
    "exp": math.exp,
    "floor": numeric.floor,
    "ln": math.ln,
    "log10": math.log10,
    "log2": math.log2,
    "round": math.rounded,
    "sgn": math.sgn,
    "sqrt": math.sqrt,
}
"""Functions of a value and, behind it, of scalar arguments. None where there is no result: `clamp` with its bounds the wrong way round."""
