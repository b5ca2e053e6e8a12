"""Properties of every scorer for any cluster and pod: no exception, no warning, valid scores."""

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import BEST, ClusterSnapshot, NodeUsageArrays
from evaluator.features.scorers.registry import BUILT_IN
from tests.evaluator.features.scorers.scorers import SCORERS
from tests.evaluator.features.scorers.snapshots import fixed, likely_views, pods, reordered, views

ANY = st.one_of(views(), likely_views())
HUGE = dict.fromkeys(Resource, 1e18)

each = pytest.mark.parametrize("scorer", list(SCORERS.values()), ids=SCORERS)


def check(scorer, view, found):
    """It provides the declared metrics, with a value per node where known."""
    assert set(found.refusals) <= set(scorer.predicates)
    assert set(found.scores) <= set(scorer.priorities)
    count = len(view.nodes)
    for refusals in found.refusals.values():
        for refusal in refusals:
            assert refusal.where.shape == (count,)
            assert refusal.where.dtype == bool
            assert refusal.reason.strip()
            assert refusal.reason.isprintable()
    for scores in found.scores.values():
        assert scores.shape == (count,)
        assert np.issubdtype(scores.dtype, np.integer)
        assert ((scores >= 0) & (scores <= BEST)).all()
    for values in found.facts.values():
        assert values.shape == (count,)
        assert values.dtype == np.float64
    if found.missing is not None:
        assert found.missing.shape == (count,)
        assert found.missing.dtype == bool


def told(found):
    """A result in plain values; per node, in node order."""
    refused = {
        name: [(one.reason, one.where.tolist()) for one in refusals]
        for name, refusals in found.refusals.items()
    }
    scores = {name: values.tolist() for name, values in found.scores.items()}
    facts = {name: values.tobytes() for name, values in found.facts.items()}
    return refused, scores, facts


def always(soak, **drawn):
    """Decorate a check of each scorer on many clusters; new ones each time only with --soak."""

    def run(holds):
        def of_each(**found):
            for name, scorer in SCORERS.items():
                note(name)
                holds(scorer, **found)

        many = settings(
            max_examples=1000 if soak else 20,
            deadline=None,
            derandomize=not soak,
            phases=[phase for phase in Phase if soak or phase is not Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        many(given(**drawn)(of_each))()

    return run


def test_any_cluster_and_pod_get_a_result(soak):
    @always(soak, view=ANY, pod=pods)
    def _(scorer, view, pod):
        check(scorer, view, scorer.score(view, pod))


def test_equal_requests_get_equal_results_in_any_sequence(soak):
    between = many_nodes(np.random.default_rng(4))

    @always(soak, view=ANY, pod=pods)
    def _(scorer, view, pod):
        before = told(scorer.score(view, pod))
        scorer.score(between, pod)
        assert told(scorer.score(view, pod)) == before


def test_node_order_does_not_matter(soak):
    @always(soak, view=ANY, pod=pods, seed=st.integers(0, 2**32))
    def _(scorer, view, pod, seed):
        order = list(range(len(view.nodes)))
        random.Random(seed).shuffle(order)
        found, other = scorer.score(view, pod), scorer.score(reordered(view, order), pod)
        assert other.scores.keys() == found.scores.keys()
        for name, scores in found.scores.items():
            assert other.scores[name].tolist() == scores[order].tolist()
        for name in found.refusals.keys() | other.refusals.keys():
            before, after = reasons(found, name, view), reasons(other, name, view)
            assert after == [before[place] for place in order]


def reasons(found, predicate, view):
    """The rejection reason per node; empty if accepted."""
    why = [""] * len(view.nodes)
    for refusal in reversed(found.refusals.get(predicate, ())):
        for place in np.flatnonzero(refusal.where):
            why[place] = refusal.reason
    return why


def test_every_scorer_is_covered():
    assert {name.partition(",")[0] for name in SCORERS} >= BUILT_IN.keys()


@each
def test_empty_cluster_gets_a_result(scorer):
    view = ClusterSnapshot(NodeIndex())
    check(scorer, view, scorer.score(view, PodView(requests=HUGE)))


@each
def test_nodes_without_data_get_a_result(scorer):
    view = ClusterSnapshot(NodeIndex(("a", "b")))
    check(scorer, view, scorer.score(view, PodView()))


@each
@pytest.mark.parametrize("capacity", [0.0, float("nan"), -1.0, 1e18])
def test_nodes_with_invalid_capacity_get_a_result(scorer, capacity):
    view = many_nodes(np.random.default_rng(2))
    same = fixed([capacity] * len(view.nodes))
    view = dataclasses.replace(view, allocatable=dict.fromkeys(view.allocatable, same))
    check(scorer, view, scorer.score(view, PodView()))


@each
def test_pod_that_fits_nowhere_gets_a_result(scorer):
    view = many_nodes(np.random.default_rng(3))
    check(scorer, view, scorer.score(view, PodView(requests=HUGE)))


@each
def test_reason_contains_no_changing_value(scorer):
    """kube-scheduler writes it into the pod: a reading in it would cause endless retries."""
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(40):
        view = many_nodes(rng)
        found = scorer.score(view, PodView(requests=HUGE))
        seen |= {why for name in found.refusals for why in reasons(found, name, view)}
    assert len(seen - {""}) <= len(Resource)


def many_nodes(rng, count=50):
    """Nodes of all sizes and loads."""
    sizes = {Resource.CPU: 8000 * rng.random(count), Resource.MEMORY: 2**36 * rng.random(count)}

    def shares():
        return {resource: size * rng.random(count) for resource, size in sizes.items()}

    free, deviation, forecast = shares(), shares(), shares()
    usage = {one: NodeUsageArrays(free[one], deviation[one], forecast[one]) for one in sizes}
    return ClusterSnapshot(
        nodes=NodeIndex(f"node-{number}" for number in range(count)),
        allocatable=sizes,
        requested=shares(),
        recently_bound=shares(),
        usage=usage,
        congestion=rng.random(count),
    )
