"""Rankings and violations with the pods placed since the readings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.placement.explain import learned_of, placed_on
from evaluator.core.placement.ledger import UNCONFIRMED
from tests.evaluator.core.placement.worlds import CORES, WINDOW, World

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "bind", "gone", "wait"]),
        st.sampled_from("pqrs"),
        st.integers(0, 3),
    ),
    max_size=20,
)


@given(EVENTS, st.sampled_from([CORES, "cpu", "health_metric", "node_memory_headroom_ratio"]))
def test_answers_are_those_of_the_readings_once_these_include_all_pods(events, metric):
    """The same object as without pods, so that nothing can differ; counting ends for any events."""
    world = World([1, 2, 3, 2], metric=metric, most=2)
    for event, uid, node in events:
        name = world.nodes[node]
        match event:
            case "answer":
                world.placements.answered(world.pod(uid, cpu=500), [name], world.now)
            case "bind":
                world.bind(uid, name, cpu=500)
            case "gone":
                world.leave(uid, name)
            case _:
                world.now += 0.5
        assert (world.pods >= 0).all()
        assert world.pods.sum() <= len({uid for _, uid, _ in events}) + 1e-9
    world.now += 60.0
    world.read()
    assert world.counted.decision is world.plain
    world.now += 1000.0
    world.read()
    assert len(world.placements.ledger) == 0


@pytest.mark.parametrize(
    ("metric", "requests"),
    [("cpu", {}), ("cpu", {"cpu": 200}), (CORES, {}), ("health_metric", {})],
)
def test_unknown_pods_take_turns_on_equal_nodes(metric, requests):
    """Nothing is known of the pods, or of the metric: each node gets its second pod after all have one."""
    world = World([1] * 5, metric=metric)
    got = []
    for number in range(10):
        best = max(world.nodes, key=lambda node: (world.scores[node], node))
        got.append(best)
        world.bind(f"p{number}", best, **requests)
    assert sorted(got[:5]) == sorted(got[5:]) == list(world.nodes)


def test_pods_do_not_move_a_level_of_health():
    """A node of a better level stays preferred, whatever was placed there."""
    world = World([0, 0, 2], metric="health_metric")
    for number in range(20):
        world.bind(f"p{number}", world.nodes[number % 2])
    assert world.scores["n02"] < min(world.scores["n00"], world.scores["n01"])


def test_a_request_counts_in_the_units_of_the_metric():
    world = World([1, 4, 4, 4], most=5)
    world.bind("p", "n00", cpu=2000)
    added = world.counted.added[CORES]
    assert added.unbiased.tolist() == [2.0, 0, 0, 0]
    assert added.ranking[0] >= 2.0
    assert world.scores["n00"] == 10
    world.bind("q", "n00", cpu=2500)
    assert world.scores["n00"] < 10
    assert dict(world.counted.decision.dontschedule) == {
        "n00": "violating demo: node_cpu_used_cores GreaterThan 5"
    }
    assert not world.plain.dontschedule


def test_a_share_of_capacity_counts_by_what_the_node_has():
    world = World([0.9, 0.5], metric="node_cpu_headroom_ratio", operator="GreaterThan")
    world.bind("p", "n00", cpu=6000)  # of 8000
    assert world.counted.added[world.metric].unbiased.tolist() == [-0.75, 0]
    assert world.scores == {"n00": 9, "n01": 10}


def test_a_pod_fades_out_as_the_window_of_the_metric_includes_it():
    world = World([1, 1])
    world.bind("p", "n00", cpu=1000)
    seen = []
    for _ in range(4):
        seen.append(world.amounts[0])
        world.now += WINDOW / 3
        world.read()
    assert seen == pytest.approx([1, 2 / 3, 1 / 3, 0], abs=1e-9)


def test_readings_that_stay_away_keep_the_pod():
    """Only a reading ends counting, not time: an agent that is late has not seen the pod."""
    world = World([1, 1])
    world.bind("p", "n00", cpu=1000)
    world.now += 25.0
    assert world.pods.tolist() == [1, 0]


def test_an_answer_counts_at_once_and_a_lost_binding_is_forgotten():
    world = World([1, 1])
    world.placements.answered(world.pod("p", cpu=1000), ["n00", "n01"], world.now)
    assert world.pods.tolist() == [0.5, 0.5]
    world.bind("p", "n01", cpu=1000)
    assert world.pods.tolist() == [0, 1]
    world.placements.answered(world.pod("q"), ["n00"], world.now)
    assert world.pods.tolist() == [1, 1]
    world.now += UNCONFIRMED
    assert world.pods.tolist() == [0, 1]


def test_replicas_agree_on_pods_that_they_saw_being_bound_or_found_bound():
    """One watched the binding; the other started later and read when the pod was bound."""
    early, late = World([1, 2]), World([1, 2])
    early.bind("p", "n00", cpu=1000)
    for world in (early, late):
        world.now += 6.0
    late.bind("p", "n00", age=6.0, cpu=1000)
    for world in (early, late):
        world.read()
    assert early.pods.tolist() == late.pods.tolist()
    assert early.amounts.tolist() == late.amounts.tolist()
    assert early.scores == late.scores


def test_an_annotation_brings_back_ranking_by_readings_alone():
    world = World([1, 2], annotations={"plimsoll.io/placed-since": "ignore"}, most=1.5)
    world.bind("p", "n00", cpu=8000)
    assert world.counted.decision is world.plain
    odd = World([1, 2], annotations={"plimsoll.io/placed-since": "no"})
    (problem,) = odd.policy.problems
    assert "plimsoll.io/placed-since" in problem
    assert "count, ignore" in problem


def test_pods_never_end_a_violation():
    """They raise the free share that a policy wants below a limit: the violation holds until a reading says otherwise."""
    world = World([0.9, 0.1], metric="node_cpu_headroom_ratio", most=0.5)
    world.bind("p", "n00", cpu=8000)
    assert set(world.counted.decision.dontschedule) == {"n00"}


def test_unknown_load_of_other_namespaces_moves_nothing():
    world = World([1, 2], metric="cpu", most=1.5)
    for number in range(1000):
        world.bind(f"p{number}", "n00", namespace="evil", cpu=8000)
    assert world.counted.added["cpu"].ranking.tolist() == [0, 0]
    assert world.scores == {"n00": 10, "n01": 9}


def test_requests_of_other_namespaces_count_up_to_what_the_node_has():
    world = World([1, 2])
    for number in range(1000):
        world.bind(f"p{number}", "n00", namespace="evil", cpu=2**60)
    assert world.counted.added[CORES].unbiased.tolist() == [8, 0]


def test_what_their_pods_were_seen_to_add_is_not_used():
    world = World([1, 2])
    burst(world, "evil", 50.0)
    world.bind("q", "n00", namespace="evil", cpu=100)
    assert world.counted.added[CORES].unbiased[0] == pytest.approx(0.1)


def burst(world, namespace, each, rounds=6):
    """Pods come one at a time, and each adds the same to its node."""
    values = list(world.values.values())
    for number in range(rounds):
        node = number % len(values)
        world.bind(f"{namespace}{number}", world.nodes[node], namespace=namespace, cpu=100)
        values[node] += each
        for _ in range(5):
            world.now += WINDOW
            world.read(values)


def test_what_pods_of_a_policy_added_replaces_their_requests():
    world = World([1, 2])
    burst(world, "ns", 0.7)
    world.bind("q", "n00", cpu=100)
    world.bind("r", "n01", cpu=200)
    assert world.counted.added[CORES].unbiased == pytest.approx([0.7, 1.4])


@given(
    values=st.lists(
        st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=3, max_size=3
    ),
    cpu=st.sampled_from([0, 1, 2**63 - 1]),
    metric=st.sampled_from(["cpu", CORES, "node_cpu_utilisation_ratio"]),
    operator=st.sampled_from(["LessThan", "GreaterThan", "Equals"]),
)
def test_any_readings_and_requests_give_scores_in_range(values, cpu, metric, operator):
    world = World(values, metric=metric, operator=operator, most=1)
    world.bind("p", "n00", cpu=cpu)
    world.bind("q", "n01", namespace="other", cpu=cpu)
    with np.errstate(all="raise", under="ignore"):
        scores = world.scores
    assert set(scores) == set(dict(world.plain.ranking.scores(world.nodes)))
    assert all(0 <= score <= 10 for score in scores.values())
    assert set(world.plain.dontschedule) <= set(world.counted.decision.dontschedule)


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (CORES, "2 pods placed since this reading, counted as 3 cores"),
        (
            "node_cpu_utilisation_ratio",
            "2 pods placed since this reading, counted as 38 % of the node",
        ),
        ("cpu", "2 pods placed since this reading, counted as 2"),
    ],
)
def test_what_counts_is_explained_in_words(metric, text):
    world = World([1, 1, 1], metric=metric)
    for uid in "pq":
        world.bind(uid, "n01", cpu=1500)
    assert not [*placed_on(world.placements.measures, world.counted, 0)]
    (found,) = placed_on(world.placements.measures, world.counted, 1)
    assert (found.metric, found.pods, found.text) == (metric, 2, text)


def test_both_amounts_are_explained_where_they_differ():
    """A ranking errs upwards; dontschedule takes what is likely."""
    world = World([6, 2], most=5)
    world.bind("p", "n01", cpu=1000)
    (found,) = placed_on(world.placements.measures, world.counted, 1)
    assert found.text == (
        "1 pod placed since this reading, counted as 2 cores in the ranking and 1 cores in dontschedule"
    )


def test_what_was_learned_is_explained_in_words():
    for metric, text in [
        (CORES, "a pod adds 0.7 cores: the median of 6 trials"),
        ("cpu", "a pod adds 0.7: the median of 6 trials"),
    ]:
        world = World([1, 2], metric=metric)
        burst(world, "ns", 0.7)
        assert learned_of(world.placements, world.key)[metric].text == text


@pytest.fixture
def world():
    """A pod of 2 cores was on the first node long before the reading of 7 cores."""
    world = World([7, 1], leave=6)
    world.bind("p", "n00", age=500.0, cpu=2000)
    return world


def test_a_node_violates_no_more_once_enough_has_left(world):
    assert set(world.plain.deschedule) == set(world.decisions.labels) == {"n00"}
    world.leave("p", "n00", cpu=2000)
    world.read()
    assert not world.plain.deschedule
    assert not any(world.decisions.labels.values())


def test_a_reading_that_includes_it_decides_again(world):
    world.leave("p", "n00", cpu=2000)
    world.now += WINDOW
    world.read([6.5, 1])
    assert set(world.plain.deschedule) == {"n00"}


@pytest.mark.parametrize("pod", [{"namespace": "evil"}, {"policy": "demo"}])
def test_a_tenant_ends_no_violation_of_another(world, pod):
    """Nor does a pod that the readings never included."""
    world.bind("q", "n00", cpu=8000, **pod)
    world.leave("q", "n00", cpu=8000, **pod)
    world.read()
    assert set(world.plain.deschedule) == {"n00"}


def test_rankings_and_filters_do_not_expect_less_than_was_read(world):
    world.leave("p", "n00", cpu=2000)
    assert world.counted.decision is world.plain
    assert not world.counted.added


def test_nodes_without_room_for_a_pod_more_are_crowded():
    """With those on their way: the third has room for one of 2 cores, until another was placed there."""
    world = World([7, 5, 3], most=6, leave=6)

    def crowded():
        mask = world.placements.crowded(world.plain, world.decisions, world.pod("x", cpu=2000))
        return world.nodes.names_at(mask)

    assert crowded() == ["n00", "n01"]
    world.bind("p", "n02", cpu=1500)
    assert crowded() == ["n00", "n01", "n02"]


def test_readings_include_a_pod_once_their_window_has_passed():
    world = World([7, 1], leave=6)
    world.bind("p", "n00", cpu=2000)

    def included_at():
        return world.placements.included_at("p", world.plain, world.decisions)

    assert included_at() == world.now + WINDOW
    world.now += WINDOW
    assert included_at() == world.now
    world.read()
    assert included_at() == 0.0
    health = World([2, 0], metric="health_metric", leave=1)
    health.bind("p", "n00")
    assert health.placements.included_at("p", health.plain, health.decisions) == 0.0


@pytest.mark.parametrize("metric", ["node_condition_KernelDeadlock", "violation_score_ns_web"])
def test_conditions_and_scores_say_at_once_what_they_say_about_a_new_pod(metric):
    world = World([1, 0], metric=metric, leave=0)
    world.bind("p", "n00")
    assert world.placements.included_at("p", world.plain, world.decisions) == 0.0
