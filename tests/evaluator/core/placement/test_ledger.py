"""Each pod counts once, in one place, and not for ever."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.placement.ledger import MOST_PODS, UNCONFIRMED, Ledger, PlacedPod
from tests.alone import alone

NODES = NodeIndex("abcd")
KEY = PolicyKey("ns", "demo")


def pod(uid, key=KEY):
    return PlacedPod(uid, key)


def shares(ledger, nodes=NODES):
    """Node → how many pods count there."""
    found = ledger.weighed(nodes)
    listed = found.nodes >= 0
    counts = np.bincount(found.nodes[listed], found.shares[listed], minlength=len(nodes))
    return {node: round(n, 6) for node, n in zip(nodes, counts.tolist(), strict=True) if n}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "bind", "gone", "wait", "forget"]),
        st.sampled_from("pqr"),
        st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True),
    ),
    max_size=30,
)


@given(STEPS)
def test_a_pod_counts_once_and_where_it_was_last_bound(steps):
    """Against a plain model: retries, answers after the binding, lost bindings, in any order."""
    ledger, now = Ledger(), 100.0
    answered, bound = {}, {}
    for step, uid, nodes in steps:
        match step:
            case "answer":
                ledger.answer(pod(uid), nodes, now)
                if uid not in bound:
                    answered[uid] = (now, nodes)
            case "bind":
                ledger.bind(pod(uid), nodes[0], now)
                answered.pop(uid, None)
                bound.pop(uid, None)
                bound[uid] = (now, nodes[0])
            case "gone":
                ledger.remove(uid)
                answered.pop(uid, None)
                bound.pop(uid, None)
            case "forget":
                ledger.forget(now - 2.0)
                bound = {uid: one for uid, one in bound.items() if one[0] >= now - 2.0}
            case _:
                now += 0.6
        ledger.end_answers(now)
        answered = {uid: one for uid, one in answered.items() if now - one[0] < UNCONFIRMED}
        expected = dict.fromkeys(NODES, 0.0)
        for _, where in answered.values():
            for node in where:
                expected[node] += 1 / len(where)
        for _, node in bound.values():
            expected[node] += 1
        assert shares(ledger) == pytest.approx({n: c for n, c in expected.items() if c}, abs=1e-5)
        assert len(ledger) == len(answered) + len(bound)


def test_a_later_binding_outlives_an_earlier_one():
    """A pod that was entered twice is forgotten when the later entry is old."""
    ledger = Ledger()
    ledger.bind(pod("p"), "a", 100.0)
    ledger.bind(pod("p"), "b", 103.0)
    ledger.forget(101.0)
    assert shares(ledger) == {"b": 1.0}
    ledger.forget(104.0)
    assert shares(ledger) == {}


def test_withdrawing_drops_an_answer_and_keeps_a_bound_pod():
    """kube-scheduler asks anew after a failed attempt; a request that was made before the binding changes nothing."""
    ledger = Ledger()
    ledger.answer(pod("p"), ["a", "b"], 100.0)
    ledger.bind(pod("q"), "c", 100.0)
    ledger.withdraw("p")
    ledger.withdraw("q")
    ledger.withdraw("unknown")
    assert shares(ledger) == {"c": 1.0}
    assert ledger.unconfirmed() == 0


@given(st.permutations([*"pqrstu"]), st.integers(0, 5))
def test_order_of_bindings_does_not_matter(order, gone):
    """Of events of different pods; those of one pod come in order."""
    place = dict(zip("pqrstu", "aabbcd", strict=True))
    ledger = Ledger()
    for uid in order:
        ledger.bind(pod(uid), place[uid], 5.0)
    ledger.remove(order[gone])
    expected = [node for uid, node in place.items() if uid != order[gone]]
    assert shares(ledger) == {node: expected.count(node) for node in set(expected)}


def test_an_answer_that_ends_is_counted_again_when_the_pod_is_bound_late():
    ledger = Ledger()
    ledger.answer(pod("p"), ["a"], 1.0)
    ledger.end_answers(1.0 + UNCONFIRMED)
    assert shares(ledger) == {}
    ledger.bind(pod("p"), "b", 3.0)
    assert shares(ledger) == {"b": 1}


def test_a_pod_on_a_node_that_is_not_listed_counts_once_the_node_is():
    ledger = Ledger()
    ledger.bind(pod("p"), "z", 1.0)
    assert shares(ledger) == {}
    assert shares(ledger, NodeIndex("az")) == {"z": 1}


def test_pods_without_a_uid_and_answers_with_many_equal_nodes_do_not_count():
    ledger, many = Ledger(), NodeIndex(f"n{number}" for number in range(17))
    ledger.answer(pod(""), ["a"], 1.0)
    ledger.answer(pod("p"), many, 1.0)
    assert shares(ledger, many) == {}
    assert len(ledger) == 0


@alone
def test_churn_is_bounded_in_memory():
    """Four times as many pods come as are kept, of as many policies; then all go. A fifth of the size: tracing is slow."""
    ledger = Ledger(most_pods=MOST_PODS // 5)
    tracemalloc.start()
    try:
        for number in range(4 * MOST_PODS // 5):
            ledger.bind(pod(f"{number}", PolicyKey("ns", f"{number}")), "a", number / 1000)
            if number % 200 == 0:
                ledger.forget(0.0)
        assert len(ledger) <= MOST_PODS // 5 + 200
        assert len(ledger.policies) <= 2 * len(ledger) + 200
        ledger.forget(1e9)
        assert (len(ledger), ledger.policies) == (0, [])
        assert tracemalloc.get_traced_memory()[0] < (1 << 20) // 5
    finally:
        tracemalloc.stop()
