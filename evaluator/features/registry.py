"""The list of features. Deleting a feature is deleting its line here and its folder."""

from typing import Any

from prometheus_client import CollectorRegistry

from evaluator.core.feature import Feature
from evaluator.core.metrics import Metrics
from evaluator.core.policy.vocabulary import merged
from evaluator.features.custom_metrics.feature import FEATURE as CUSTOM_METRICS
from evaluator.features.evictions.feature import FEATURE as EVICTIONS
from evaluator.features.extender.feature import FEATURE as EXTENDER
from evaluator.features.gangs.feature import FEATURE as GANGS
from evaluator.features.labels.feature import FEATURE as LABELS
from evaluator.features.node_actions.feature import FEATURE as NODE_ACTIONS
from evaluator.features.pages.feature import FEATURE as PAGES
from evaluator.features.requeue.feature import FEATURE as REQUEUE
from evaluator.features.scorers.feature import FEATURE as SCORERS
from evaluator.features.status.feature import FEATURE as STATUS

FEATURES: tuple[Feature[Any], ...] = (
    EXTENDER,
    LABELS,
    NODE_ACTIONS,
    EVICTIONS,
    REQUEUE,
    STATUS,
    SCORERS,
    GANGS,
    CUSTOM_METRICS,
    PAGES,
)
"""In the order in which they are wired, and shown where several contribute."""

VOCABULARY = merged(feature.vocabulary for feature in FEATURES)
"""What policies may name beside metrics of nodes."""


def documented_metrics() -> CollectorRegistry:
    """Return the metrics of the core and of all features, without values."""
    registry = Metrics().registry
    for feature in FEATURES:
        feature.metrics(registry)
    return registry
