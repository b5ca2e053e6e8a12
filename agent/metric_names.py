"""Names that policies may use for a series."""

from plimsoll.metric_names import PREFIX, spellings
from plimsoll.text import NearNames


def candidates(metric: str) -> tuple[str, str]:
    """Return the series names that a policy's metric name matches: `health_metric` and `node_health_metric`."""
    return metric, PREFIX + metric


def possible(metric: str) -> tuple[str, ...]:
    """Return `candidates`, and the name without `node_`, which a metric has on nodes without one of them."""
    return tuple(dict.fromkeys([*candidates(metric), *spellings(metric)]))


PARTS = ("_bucket", "_sum", "_count")
"""Suffixes of the samples of histograms and summaries."""


def families_of(series: str) -> list[str]:
    """Return the families that may have samples of this name: those of histograms and summaries have one of `PARTS`."""
    return [series, *(series.removesuffix(part) for part in PARTS if series.endswith(part))]


def similar(metric: str, names: NearNames, most: int) -> list[str]:
    """Return up to `most` names similar to a metric's; `names` are series without the prefix, which the metric may have."""
    prefix = PREFIX if metric.startswith(PREFIX) else ""
    return [prefix + name for name in names.find(metric.removeprefix(PREFIX), most)]
