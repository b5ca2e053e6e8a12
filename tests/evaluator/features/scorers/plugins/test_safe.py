"""The risk of overload: known numbers, limits, gaps, and properties for any node."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import ClusterSnapshot, NodeUsageArrays, WhenMissing
from evaluator.features.scorers.plugins.safe import BALANCE, OVERLOAD, Safe, SafeOptions, share
from tests.examples import examples

NAN = math.nan
MIB = 2.0**20


def usage(free, deviation=NAN, forecast=NAN):
    """A snapshot of nodes; a single number applies to all."""
    columns = np.broadcast_arrays(
        *(np.asarray(one, dtype=float) for one in (free, deviation, forecast))
    )
    return NodeUsageArrays(*(column.reshape(-1).copy() for column in columns))


def cluster(cpu=None, memory=None, *, capacity=8000.0, young=None, memory_capacity=1024 * MIB):
    """Nodes with this use."""
    use = {Resource.CPU: cpu, Resource.MEMORY: memory}
    use = {resource: one for resource, one in use.items() if one is not None}
    size = len(next(iter(use.values())).free) if use else 1
    allocatable = {Resource.CPU: capacity, Resource.MEMORY: memory_capacity}
    return ClusterSnapshot(
        NodeIndex(f"n{place}" for place in range(size)),
        allocatable={
            resource: np.broadcast_to(np.asarray(amount, dtype=float), size)
            for resource, amount in allocatable.items()
        },
        recently_bound={Resource.CPU: np.full(size, young)} if young is not None else {},
        usage=use,
    )


def asking(cpu=0.0, memory=0.0):
    requests = {Resource.CPU: cpu, Resource.MEMORY: memory}
    return PodView("default/p", requests=requests)


def cpu_risk(view, pod, options=None):
    return Safe(options).score(view, pod).facts["cpu.risk"]


def refused(result):
    """The reason per node, empty if it passes."""
    size = len(next(iter(result.scores.values())))
    reasons = [""] * size
    for refusal in result.refusals[OVERLOAD]:
        for place in np.flatnonzero(refusal.where):
            reasons[place] = reasons[place] or refusal.reason
    return reasons


def answer(result):
    """Of the first node: whether it passes, and its scores."""
    scores = [int(result.scores[name][0]) for name in (OVERLOAD, BALANCE)]
    return refused(result)[0] == "", *scores


TABLE = [
    pytest.param(
        cluster(usage(2500, 400)), asking(200), (0.7125, 0.05, 57.668, 23.2695, 1.564e-6),
        (True, 9, 5), id="two thirds in use",
    ),
    pytest.param(
        cluster(usage(2500, 400, 2000)), asking(200), (0.725, 0.05, 57.0938, 21.6563, 7.77e-6),
        (True, 9, 5), id="with a forecast",
    ),
    pytest.param(
        cluster(usage(200, 100), capacity=1000), asking(), (0.8, 0.1, 12, 3, 0.158360),
        (True, 2, 4), id="small and busy",
    ),
    pytest.param(
        cluster(usage(1000)), asking(200), (0.9, 0, NAN, NAN, 0), (True, 10, 6),
        id="no deviation, at the limit",
    ),
    pytest.param(
        cluster(usage(500)), asking(200), (0.9625, 0, NAN, NAN, 1), (False, 0, 5),
        id="no deviation, above the limit",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("view", "pod", "numbers", "expected"), TABLE)
def test_known_numbers_are_reproduced(view, pod, numbers, expected):
    found = Safe().score(view, pod)
    facts = [found.facts[f"cpu.{name}"][0] for name in ("mu", "sigma", "alpha", "beta", "risk")]
    # The reference numbers have this many digits.
    assert facts == pytest.approx(numbers, rel=4e-4, abs=1e-9, nan_ok=True)
    assert answer(found) == expected


STEADY = [(0.899, 0.4263), (0.905, 0.8414)]


@pytest.mark.parametrize(("mean", "risk"), STEADY)
def test_risk_of_steady_use_near_the_limit(mean, risk):
    view = cluster(usage(8000 * (1 - mean), 40))
    assert cpu_risk(view, PodView())[0] == pytest.approx(risk, abs=5e-5)


def test_recently_bound_pods_count_by_their_requests():
    before, after = cluster(usage(2500, 400)), cluster(usage(2500, 400), young=1500.0)
    assert refused(Safe().score(before, asking(200))) == [""]
    assert refused(Safe().score(after, asking(200))) != [""]
    same = cpu_risk(before, asking(1700))
    assert cpu_risk(after, asking(200)) == pytest.approx(same)


def test_worse_resource_counts_and_is_named():
    view = cluster(usage([4000, 100, 4000], 1), usage([900 * MIB, 900 * MIB, 10 * MIB], MIB))
    found = Safe().score(view, asking())
    reasons = refused(found)
    assert reasons[0] == ""
    assert "CPU" in reasons[1]
    assert "memory" in reasons[2]
    assert found.scores[OVERLOAD].tolist() == [10, 0, 0]


def test_node_with_one_known_resource_is_judged_by_it():
    view = cluster(usage([NAN, 4000, NAN]), usage([10 * MIB, NAN, NAN]))
    found = Safe().score(view, asking())
    assert [bool(reason) for reason in refused(found)] == [True, False, False]
    assert found.scores[OVERLOAD].tolist() == [0, 10, 0]
    assert found.missing.tolist() == [False, False, True]


@pytest.mark.parametrize("view", [cluster(), cluster(usage(NAN), usage(NAN))])
def test_unknown_node_passes_or_is_rejected_as_configured(view):
    assert answer(Safe().score(view, asking(100))) == (True, 0, 0)
    strict = Safe(SafeOptions(safe_when_missing=WhenMissing.REFUSE)).score(view, asking(100))
    assert "are unknown" in refused(strict)[0]
    assert np.isnan(strict.facts["cpu.risk"]).all()


@pytest.mark.parametrize("capacity", [NAN, math.inf])
def test_node_without_allocatable_is_unknown(capacity):
    safe = Safe()
    found = safe.score(cluster(usage(100, 1), capacity=capacity), asking())
    assert found.missing.tolist() == [True]


def test_zero_capacity_is_overloaded_by_any_request():
    view = cluster(usage(0.0, 0.0), capacity=0.0)
    assert answer(Safe().score(view, asking(1))) == (False, 0, 0)
    assert answer(Safe().score(view, asking(0))) == (True, 10, 10)
    assert cpu_risk(view, asking(1), SafeOptions(safe_utilisation=1.0)) == [1.0]


@pytest.mark.parametrize(("free", "passes"), [(8000, True), (4000, False), (0, False)])
@pytest.mark.parametrize("deviation", [0, 800])
def test_zero_target_passes_only_idle_nodes(free, passes, deviation):
    options = SafeOptions(safe_utilisation=0.0)
    found = Safe(options).score(cluster(usage(free, deviation)), asking())
    assert answer(found)[:2] == (passes, 10 if passes else 0)


@pytest.mark.parametrize(("free", "deviation"), [(4000, 0), (4000, 800), (0, 0)])
def test_full_target_rejects_nothing(free, deviation):
    options = SafeOptions(safe_utilisation=1.0)
    assert answer(Safe(options).score(cluster(usage(free, deviation)), asking()))[:2] == (True, 10)


def test_zero_accepted_risk_requires_none():
    none = Safe(SafeOptions(safe_risk=0.0))
    assert answer(none.score(cluster(usage(1000)), asking(200)))[:2] == (True, 10)
    assert answer(none.score(cluster(usage(2500, 400)), asking(200)))[:2] == (False, 0)


def test_full_accepted_risk_passes_every_node():
    certain = Safe(SafeOptions(safe_risk=1.0)).score(cluster(usage(0.0, 1.0)), asking())
    assert answer(certain)[:2] == (True, 0)


def test_impossible_deviation_is_a_certain_risk():
    assert cpu_risk(cluster(usage(4000, 4000)), asking()) == [1.0]


@pytest.mark.parametrize("deviation", [1e-5, 1e-12, 1e-200])
def test_tiny_deviation_equals_none(deviation):
    risks = cpu_risk(cluster(usage([900, 800, 700], deviation)), asking())
    assert risks.tolist() == [0.0, 0.0, 1.0]


def test_either_priority_may_be_first():
    assert Safe().priorities == (OVERLOAD, BALANCE)
    assert Safe(SafeOptions(safe_priority="balance")).priorities == (BALANCE, OVERLOAD)


def test_inputs_are_explained():
    facts = Safe().score(cluster(usage(2500, 400), young=300.0), asking(200)).facts
    assert facts["cpu.free"] == [2500]
    assert facts["cpu.unmeasured"] == [300]
    assert facts["cpu.request"] == [200]
    assert facts["cpu.deviation"] == [400]
    assert facts["cpu.used"] == [5800]
    assert np.isnan(facts["memory.used"]).all()


def test_unknown_deviation_is_explained_as_zero():
    facts = Safe().score(cluster(usage(2500)), asking()).facts
    assert np.isnan(facts["cpu.deviation"]).all()
    assert facts["cpu.sigma"] == [0]


@pytest.mark.parametrize("text", ["", "x", "-0.1", "1.1", "nan", "inf"])
def test_share_is_between_0_and_1(text):
    with pytest.raises(ValueError, match="not a number from 0 to 1"):
        share(text)


@pytest.mark.parametrize("text", ["0", "1", "0.25"])
def test_share_is_parsed(text):
    assert share(text) == float(text)


NODE = st.tuples(st.floats(1000, 64000), st.floats(0, 1.1), st.floats(0, 0.4), st.floats(0, 20000))


def drawn(nodes):
    """A cluster of (capacity, free share, deviation share, recently bound) each."""
    capacity, free, deviation, young = np.array(nodes, dtype=float).reshape(-1, 4).T
    size = len(capacity)
    return ClusterSnapshot(
        NodeIndex(f"n{place}" for place in range(size)),
        allocatable={Resource.CPU: capacity},
        recently_bound={Resource.CPU: young},
        usage={
            Resource.CPU: NodeUsageArrays(free * capacity, deviation * capacity, np.full(size, NAN))
        },
    )


@settings(max_examples=examples(25))
@given(st.lists(NODE, max_size=12), st.randoms(), st.floats(0, 4000))
def test_node_order_does_not_change_scores(nodes, random, cpu):
    order = list(range(len(nodes)))
    random.shuffle(order)
    safe = Safe()
    before = safe.score(drawn(nodes), asking(cpu))
    after = safe.score(drawn([nodes[place] for place in order]), asking(cpu))
    for name in (OVERLOAD, BALANCE):
        assert after.scores[name].tolist() == before.scores[name][order].tolist()
    reasons = refused(before)
    assert refused(after) == [reasons[place] for place in order]


@settings(max_examples=examples(50))
@given(st.floats(10, 1000), st.floats(0.001, 0.5), st.floats(1.001, 50), st.floats(1.001, 10))
def test_risk_falls_as_capacity_grows(used, deviation, room, growth):
    capacity = np.array([used * room, used * room * growth])
    view = cluster(usage(capacity - used, deviation * used), capacity=capacity)
    found = Safe().score(view, asking())
    assume(not np.isnan(found.facts["cpu.alpha"]).any())  # a beta distribution fits both
    smaller, larger = found.facts["cpu.risk"]
    # The tail of a beta distribution towards 0 first gets thinner when its mean moves off 1, where overload is all but certain.
    assert larger <= smaller + 1e-9 or (smaller > 0.97 and larger > 0.97)


ANY = st.one_of(st.floats(), st.sampled_from([0.0, -1.0, 1e-300, 5e-324, 1e300, NAN, math.inf]))


@settings(max_examples=examples(50))
@given(
    st.lists(st.tuples(ANY, ANY, ANY, ANY, ANY), max_size=4),
    ANY,
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.9, 1.0]),
)
def test_any_numbers_score_from_0_to_10(nodes, cpu, risk, utilisation):
    capacity, free, deviation, forecast, young = np.array(nodes, dtype=float).reshape(-1, 5).T
    view = ClusterSnapshot(
        NodeIndex(f"n{place}" for place in range(len(nodes))),
        allocatable={Resource.CPU: capacity, Resource.MEMORY: free},
        recently_bound={Resource.CPU: young},
        usage={
            Resource.CPU: NodeUsageArrays(free, deviation, forecast),
            Resource.MEMORY: NodeUsageArrays(capacity, forecast, deviation),
        },
    )
    options = SafeOptions(safe_risk=risk, safe_utilisation=utilisation)
    found = Safe(options).score(view, asking(cpu, cpu))
    for scores in found.scores.values():
        assert scores.dtype == np.int64
        assert ((scores >= 0) & (scores <= 10)).all()
    known = found.facts["cpu.risk"][~np.isnan(found.facts["cpu.risk"])]
    assert ((known >= 0.0) & (known <= 1.0)).all()
