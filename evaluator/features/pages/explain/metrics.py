"""Data of /explain?metric=: on how many nodes a metric exists, with what values, as far as policies already use it."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from evaluator.core.catalog.catalog import PREFIX
from evaluator.core.policy.evaluate import MetricColumn, MetricTable
from evaluator.core.policy.metrics_found import SimilarTo

MOST = 200
"""Metrics on one page."""


def explain(
    metrics: Iterable[str], table: MetricTable, similar_to: SimilarTo
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (metric, what is known of it); a metric of no policy is not read.

    A policy may name the same series without the prefix `node_`.
    """
    for metric in metrics:
        bare = metric.removeprefix(PREFIX)
        known = (table.prepared.get(name) for name in (metric, bare, PREFIX + bare))
        column = next((one for one in known if one is not None), None)
        if column is None:
            yield metric, {"read": False}
        else:
            yield (
                metric,
                {
                    "read": True,
                    **_numbers(column),
                    "similar": list(similar_to(column.metric) or ()),
                },
            )


def _numbers(column: MetricColumn) -> dict[str, Any]:
    found = column.readings
    having = found.samples > 0
    pending = ~having & (found.unreported | found.unread)
    finite = column.values[np.isfinite(column.values)]
    return {
        "nodesWith": int(np.count_nonzero(having)),
        "nodesWithSeveral": int(np.count_nonzero(found.fresh & (found.samples > 1))),
        "nodesWithout": int(np.count_nonzero(~having & ~pending & found.fresh)),
        "nodesPending": int(np.count_nonzero(pending)),
        "lowest": float(finite.min()) if finite.size else None,
        "highest": float(finite.max()) if finite.size else None,
    }
