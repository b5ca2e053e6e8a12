"""Packing by a cluster-wide objective: the original's numbers, and our differences."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import (
    RESOURCES,
    ClusterSnapshot,
    Demands,
    Scorer,
    WhenMissing,
)
from evaluator.features.scorers.plugins.pigeon import (
    PRIORITY,
    Objective,
    Pigeon,
    PigeonOptions,
    TieOf,
)
from plimsoll import flags
from tests.examples import examples

MI = 2.0**20
OBJECTIVES = pytest.mark.parametrize("objective", list(Objective))


def pod(cpu, memory, uid="", **others):
    requests = {Resource.CPU: cpu, Resource.MEMORY: memory * MI, **others}
    return PodView(uid=uid, requests=requests)


def cluster(*used, capacity=(4000.0, 8192.0), demands=None):
    """Nodes of equal capacity; milli-CPU and MiB."""
    cpu, memory = np.array(used, dtype=float).reshape(-1, 2).T
    return ClusterSnapshot(
        NodeIndex(f"n{i}" for i in range(len(cpu))),
        allocatable={
            Resource.CPU: np.full(len(cpu), capacity[0]),
            Resource.MEMORY: np.full(len(cpu), capacity[1]) * MI,
        },
        requested={Resource.CPU: cpu, Resource.MEMORY: memory * MI},
        demands=demands or Demands(),
    )


def run_scorer(view, one, objective=Objective.BIN_PACK, **options):
    named = {f"pigeon_{name}": value for name, value in options.items()}
    scorer: Scorer = Pigeon(PigeonOptions(pigeon_objective=objective, **named))
    found = scorer.score(view, one)
    return found.scores[PRIORITY].tolist(), found.facts["objective"].tolist(), found


THREE = cluster((1000, 2048), (2000, 4096), (3600, 7000))


@pytest.mark.parametrize(
    ("objective", "values", "scores"),
    [
        (Objective.LOAD_BALANCE, [0.223917, 0.266406, np.nan], [10, 1, 0]),
        (Objective.CONSOLIDATE, [0.507292, 0.449150, np.nan], [1, 10, 0]),
        (Objective.BIN_PACK, [0.365679, 0.441325, np.nan], [10, 1, 0]),
    ],
)
def test_first_pod_is_scored(objective, values, scores):
    found = run_scorer(THREE, pod(500, 1024), objective)
    assert found[0] == scores
    assert found[1] == pytest.approx(values, abs=5e-7, nan_ok=True)


def test_bin_packing_uses_earlier_demand():
    demands = PigeonOptions().no_demands
    for i in range(9):
        demands = demands.seen(pod(100, 128, uid=f"small-{i}"))
    demands = demands.seen(pod(2000, 4096, uid="large"))
    scores, values, found = run_scorer(replace(THREE, demands=demands), pod(500, 1024, uid="now"))
    assert scores == [1, 10, 0]
    assert values == pytest.approx([1.509685, 1.434039, np.nan], abs=5e-7, nan_ok=True)
    assert found.facts["demand_variation"] == pytest.approx([1.875364] * 3, abs=5e-7)
    again = replace(THREE, demands=demands.seen(pod(500, 1024, uid="now")))
    assert run_scorer(again, pod(500, 1024, uid="now"))[1][0] == values[0]


def test_scores_between_best_and_worst_are_rounded():
    view = cluster((0, 0), (300, 0), (700, 0), (1100, 0), (2000, 0))
    scores, values, _ = run_scorer(view, pod(500, 16), Objective.LOAD_BALANCE)
    exact = [1 + 9 * (values[4] - value) / (values[4] - values[0]) for value in values]
    assert exact == pytest.approx([10, 8.41, 6.45, 4.65, 1], abs=0.005)
    assert scores == [10, 8, 6, 5, 1]


def test_pod_that_fills_a_node_exactly_fits():
    used, capacity = 777 + 0.1 + 0.2, 1777.3
    assert used + 1000 > capacity, "a rounded sum says otherwise"
    view = cluster((used, 8192 - 1024), capacity=(capacity, 8192))
    for one, score in ((pod(1000, 1024), 10), (pod(1001, 1024), 0), (pod(1000, 1025), 0)):
        assert run_scorer(view, one)[0] == [score]


@OBJECTIVES
def test_pod_too_large_for_all_nodes_scores_zero(objective):
    scores, values, found = run_scorer(THREE, pod(9000, 1024), objective)
    assert scores == [0, 0, 0]
    assert np.isnan(values).all()
    assert found.facts["fits"].tolist() == [0, 0, 0]
    assert not found.missing.any()


@pytest.mark.parametrize(("resources", "scores"), [(1, [10, 10]), (2, [10, 0])])
def test_only_the_configured_number_of_resources_counts(resources, scores):
    view = cluster((1000, 1024), (1000, 8000))
    assert (
        run_scorer(view, pod(500, 1024), Objective.LOAD_BALANCE, resources=resources)[0] == scores
    )


def test_resources_count_in_their_order():
    view = cluster((1000, 1024), (1000, 1024))
    full = {Resource.PODS: [2, 1], Resource.GPU: [0, 2], Resource.EPHEMERAL_STORAGE: [9, 0]}
    view = replace(
        view,
        allocatable={**view.allocatable, **{r: np.full(2, 2.0) for r in full}},
        requested={**view.requested, **{r: np.array(x, dtype=float) for r, x in full.items()}},
    )
    one = pod(500, 1024, **{Resource.GPU: 1.0})
    fits = [run_scorer(view, one, resources=n)[2].facts["fits"].tolist() for n in (2, 3, 4, 5)]
    assert fits == [[1, 1], [0, 1], [0, 0], [0, 0]]


def test_insignificant_difference_is_a_tie():
    # With values near .06, the span is .6 %.
    view = cluster((1000, 2048), (1001, 2048), (1002, 2048))
    for objective in Objective:
        assert run_scorer(view, pod(500, 1024), objective)[0] == [10, 10, 10]


def test_tie_ends_at_its_tolerance():
    scores, (low, high, _), _ = run_scorer(
        cluster((1000, 0), (1001.6, 0), (4000, 0)), pod(400, 16), Objective.LOAD_BALANCE
    )
    assert (high - low) / high < 0.01
    assert scores == [10, 10, 0]
    scores, (low, high, _), _ = run_scorer(
        cluster((1000, 0), (1180, 0), (4000, 0)), pod(400, 16), Objective.LOAD_BALANCE
    )
    assert (high - low) / high > 0.01
    assert scores == [10, 1, 0]


def test_tie_tolerance_scales_with_what_the_pod_changes():
    view = cluster(*((i % 80 * 40, 4096) for i in range(1000)))
    by_value = run_scorer(view, pod(500, 1024), Objective.LOAD_BALANCE, tie=TieOf.VALUE)[0]
    assert set(by_value) == {10}
    scores = run_scorer(view, pod(500, 1024), Objective.LOAD_BALANCE)[0]
    assert scores[0] == 10
    assert scores[79] == 1
    assert scores == sorted(scores[:80], reverse=True) * 12 + scores[:40]
    alike = cluster(*((1000 + i % 3, 2048) for i in range(1000)))
    for objective in Objective:
        assert set(run_scorer(alike, pod(500, 1024), objective)[0]) == {10}


@OBJECTIVES
def test_equal_nodes_score_equally(objective):
    view = cluster(*[(1300.1, 2048.3)] * 5000)
    scores, values, _ = run_scorer(view, pod(333, 777), objective)
    assert set(scores) == {10}
    assert len(set(values)) == 1


@OBJECTIVES
def test_unknown_values_count_for_nothing(objective):
    partly = cluster((1000, 2048), (2000, 4096), (np.nan, 512), (3600, 7000), (0, np.inf))
    scores, values, found = run_scorer(partly, pod(500, 1024), objective)
    known = run_scorer(THREE, pod(500, 1024), objective)
    assert np.delete(scores, [2, 4]).tolist() == known[0]
    assert np.delete(values, [2, 4]).tolist() == pytest.approx(known[1], nan_ok=True)
    assert found.missing.tolist() == [False, False, True, False, True]
    assert [scores[2], scores[4]] == [0, 0]
    assert np.isnan(found.facts["fits"][[2, 4]]).all()
    assert not found.refusals


def test_unknown_nodes_can_be_rejected():
    view = cluster((1000, 2048), (np.nan, 512))
    options = PigeonOptions(pigeon_when_missing=WhenMissing.REFUSE)
    assert Pigeon(options).predicates == (PRIORITY,)
    assert Pigeon(PigeonOptions()).predicates == ()
    (refusal,) = Pigeon(options).score(view, pod(1, 1)).refusals[PRIORITY]
    assert refusal.where.tolist() == [False, True]
    assert "are unknown" in refusal.reason


@OBJECTIVES
def test_node_without_capacity_is_full(objective):
    view = cluster((1000, 2048), (0, 0), (2000, 4096))
    view.allocatable[Resource.CPU][1] = 0.0
    full = cluster((1000, 2048), (4000, 0), (2000, 4096))
    found = run_scorer(view, pod(500, 1024), objective)
    assert found[0][1] == 0
    if objective is not Objective.BIN_PACK:  # there the average capacity counts, too
        assert found[1] == pytest.approx(
            run_scorer(full, pod(500, 1024), objective)[1], nan_ok=True
        )


def test_one_node_and_no_node_are_scored():
    for objective in Objective:
        assert run_scorer(cluster(), pod(1, 1), objective)[0] == []
        assert run_scorer(cluster((0, 0)), pod(1, 1), objective)[0] == [10]
        assert run_scorer(ClusterSnapshot(NodeIndex(("a",))), pod(1, 1), objective)[0] == [0]


AMOUNTS = st.one_of(
    st.sampled_from([0.0, 1.0, 1e-300, 1.7e308, 2.0**63, np.nan, np.inf, -1.0, -np.inf, 4000.0]),
    st.floats(allow_nan=True),
)


@given(st.data())
@settings(max_examples=examples(50))
def test_any_numbers_are_scored(data):
    count = data.draw(st.integers(0, 4))
    amounts = st.lists(AMOUNTS, min_size=count, max_size=count).map(np.array)
    table = st.dictionaries(st.sampled_from(RESOURCES), amounts)
    asked = st.dictionaries(st.sampled_from(RESOURCES), AMOUNTS)
    demands = Demands()
    for _ in range(data.draw(st.integers(0, 3))):
        demands = demands.seen(PodView(requests=data.draw(asked)))
    view = ClusterSnapshot(
        NodeIndex(map(str, range(count))),
        allocatable=data.draw(table),
        requested=data.draw(table),
        demands=demands,
    )
    requests = data.draw(asked)
    found = Pigeon(
        PigeonOptions(
            pigeon_objective=data.draw(st.sampled_from(Objective)),
            pigeon_resources=data.draw(st.integers(1, 5)),
            pigeon_tie=data.draw(st.sampled_from(TieOf)),
        )
    ).score(view, PodView(requests=requests))
    scores = found.scores[PRIORITY]
    assert scores.dtype == np.int64
    assert ((scores >= 0) & (scores <= 10)).all()
    assert (np.isfinite(found.facts["objective"]) == (found.facts["fits"] == 1)).all()
    assert ((scores > 0) == (found.facts["fits"] == 1)).all()


@pytest.mark.parametrize(
    ("flag", "value", "mistake"),
    [
        ("pigeonResources", "0", "1 to 5"),
        ("pigeonResources", "6", "1 to 5"),
        ("pigeonResources", "two", "1 to 5"),
        ("pigeonObjective", "LOAD_BALANCE", "load-balance, consolidate, bin-pack"),
        ("pigeonTie", "none", "value, change"),
        ("pigeonWhenMissing", "skip", "ignore, refuse"),
    ],
)
def test_mistakes_in_flags_are_named(flag, value, mistake):
    (found,) = [option for _, option in flags.options(PigeonOptions) if option.flag == flag]
    with pytest.raises(ValueError, match=mistake):
        found.parse(value)


def test_flags_have_the_defaults_of_the_original():
    assert PigeonOptions() == PigeonOptions(pigeon_objective="bin-pack", pigeon_resources=2)
