"""Scores by annotation as in kube-safe-scheduler, else by measurement; unknown is not idle."""

import math

import numpy as np
import pytest

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.features.scorers.plugin import ClusterSnapshot, Scorer, WhenMissing
from evaluator.features.scorers.plugins.congestion import Congestion, CongestionOptions

NAN = math.nan
PUBLISHED = [(100, 35, 7), (10, 7, 3), (100, 150, 0), (100, 5, 10), (100, 100, 0), (100, 0, 10)]
"""The largest factor, a node's, its score."""


def view(annotated=None, measured=None):
    """A cluster of nodes, each with an annotation, a measured ratio, or both."""
    size = len(annotated if annotated is not None else measured or [])
    return ClusterSnapshot(
        NodeIndex(f"n{number}" for number in range(size)),
        congestion=None if measured is None else np.array(measured, dtype=float),
        annotations={}
        if annotated is None
        else {"congestion-factor": np.array(annotated, dtype=float)},
    )


def scored(cluster, **options):
    scorer: Scorer = Congestion(CongestionOptions(**options))
    return scorer.score(cluster, PodView()).scores["congestion"].tolist()


@pytest.mark.parametrize(("most", "factor", "score"), PUBLISHED)
def test_published_scores_are_reproduced(most, factor, score):
    assert scored(view([factor]), congestion_factor_max=most) == [score]


def test_annotation_precedes_measurement():
    assert scored(view([35, NAN, -1, 0, 34.5], [0.1, 0.1, 0.2, 0.9, 0.3])) == [7, 9, 8, 10, 7]


def test_measured_value_is_between_idle_and_full():
    assert scored(view(measured=[-0.5, 0.0, 0.44, 0.45, 0.46, 1.0, 7.0])) == [10, 10, 6, 6, 5, 0, 0]


def test_unknown_node_scores_the_mean_of_the_others():
    assert scored(view(measured=[0.2, NAN, 0.4])) == [8, 7, 6]
    assert scored(view(measured=[NAN, NAN])) == [10, 10]


def test_unknown_node_is_rejected_if_configured():
    cluster = view([NAN, NAN, 50], [0.2, NAN, NAN])
    options = CongestionOptions(congestion_when_missing=WhenMissing.REFUSE)
    result = Congestion(options).score(cluster, PodView())
    (refusal,) = result.refusals["congestion"]
    assert refusal.where.tolist() == [False, True, False]
    assert refusal.reason == "no measure of how congested its network is"
    assert result.scores["congestion"].tolist() == [8, 0, 5]


@pytest.mark.parametrize("when", list(WhenMissing))
def test_missing_inputs_and_sources_are_explained(when):
    options = CongestionOptions(congestion_when_missing=when)
    result = Congestion(options).score(view([NAN, 250], [NAN, 0.5]), PodView())
    assert result.missing.tolist() == [True, False]
    assert result.facts["congestion"].tolist() == [pytest.approx(NAN, nan_ok=True), 1.0]


def test_no_nodes_is_no_error():
    assert scored(view([], [])) == []
