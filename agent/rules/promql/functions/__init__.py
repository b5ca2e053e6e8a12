"""PromQL's functions by name, as plain functions of windows, vectors and numbers.

Results equal those of Prometheus 3.13, including NaN, infinities and the order of additions. No function reads a clock or
raises for a number. A new function is an entry in `RANGES` or `POINTWISE`, or, if it takes other arguments, in
`calls._OTHERS`; list it in docs/rules.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.rules.promql.functions import math, over_time, rates


@dataclass(frozen=True, slots=True)
class RangeFunction:
    """A function of one series over a time range."""

    compute: Callable[..., float | None]
    """`compute(window, start, end, *numbers)`: bounds of the range in ms with the offset applied, then the scalar arguments.

    Returns None if the series has no result.
    """
    keeps_name: bool = False
    """Whether the result keeps the metric's name."""
    wants_time: bool = False
    """Whether the evaluation time (ms, without offset) is passed before the scalar arguments."""


RANGES: Mapping[str, RangeFunction] = {
    "avg_over_time": RangeFunction(over_time.average),
    "changes": RangeFunction(over_time.changes),
    "count_over_time": RangeFunction(over_time.count),
    "delta": RangeFunction(rates.delta),
    "deriv": RangeFunction(rates.deriv),
    "idelta": RangeFunction(rates.idelta),
    "increase": RangeFunction(rates.increase),
    "irate": RangeFunction(rates.irate),
    "last_over_time": RangeFunction(over_time.last, keeps_name=True),
    "max_over_time": RangeFunction(over_time.highest),
    "min_over_time": RangeFunction(over_time.lowest),
    "predict_linear": RangeFunction(rates.predict_linear, wants_time=True),
    "present_over_time": RangeFunction(over_time.present),
    "quantile_over_time": RangeFunction(over_time.quantile_over_time),
    "rate": RangeFunction(rates.rate),
    "resets": RangeFunction(over_time.resets),
    "stddev_over_time": RangeFunction(over_time.deviation),
    "stdvar_over_time": RangeFunction(over_time.variance),
    "sum_over_time": RangeFunction(over_time.summed),
}

POINTWISE: Mapping[str, Callable[..., float | None]] = {
    "abs": abs,
    "ceil": math.ceil,
    "clamp": math.clamp,
    "clamp_max": math.at_most,
    "clamp_min": math.at_least,
    "exp": math.exp,
    "floor": math.floor,
    "ln": math.ln,
    "log10": math.log10,
    "log2": math.log2,
    "round": math.rounded,
    "sgn": math.sgn,
    "sqrt": math.sqrt,
}
"""Functions of a value followed by scalar arguments. They return None if there is no result: `clamp` with min > max."""
