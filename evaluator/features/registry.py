"""The list of features. Deleting a feature is deleting its line here, and its folder."""

from importlib import import_module
from typing import Any

from prometheus_client import CollectorRegistry

from evaluator.core.feature import Feature
from evaluator.core.metrics import Metrics
from evaluator.core.policy.vocabulary import merged

NAMES = (
    "stop",
    "extender",
    "labels",
    "memory",
    "node_actions",
    "problems",
    "evictions",
    "requeue",
    "status",
    "scorers",
    "gangs",
    "custom_metrics",
    "history",
    "pages",
)
"""In the order in which they are wired, and shown where several contribute.

`history` comes after the features whose kinds of actions it records; `pages` is last: it shows the others.
"""

FEATURES: tuple[Feature[Any], ...] = tuple(
    import_module(f"evaluator.features.{name}.feature").FEATURE for name in NAMES
)

VOCABULARY = merged(feature.vocabulary for feature in FEATURES)
"""What policies may name beside metrics of nodes."""


def documented_metrics() -> CollectorRegistry:
    """Return the metrics of the core and of all features, without values."""
    registry = Metrics().registry
    for feature in FEATURES:
        feature.metrics(registry)
    return registry
