"""Parses the metrics to record, as given to a flag."""

import re

from plimsoll.text import shown

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)


def metric_names(text: str) -> frozenset[str]:
    """Parse names of metrics, separated by commas. Raises ValueError."""
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    for name in sorted(names):
        if _METRIC.fullmatch(name) is None:
            raise ValueError(f"not the name of a metric: {shown(name)}")
    return names
