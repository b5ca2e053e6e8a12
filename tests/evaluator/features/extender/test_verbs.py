"""filter and prioritize as look-ups: results, nodes, and when there is no answer yet."""

from dataclasses import replace

import pytest

from evaluator.core.policy.decide import Decisions, NotReadyError, decide
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.protocol import Args
from evaluator.core.readings.store import Store
from evaluator.features.extender import verbs
from evaluator.features.extender.verbs import CountingVerbs, Result
from tests.evaluator.core.placement.worlds import World
from wire.codec import Delta

NODES = ("a", "b", "c")
NOW = 1000.0


def ask(policy="demo", *, namespace="ns", names=NODES):
    labels = {"telemetry-policy": policy} if policy is not None else {"app": "web"}
    return Args(namespace, "web", labels, names, None)


@pytest.fixture
def decisions(parsed, rule):
    def run(policy=None, values=(0.0, 1.0, 2.0), *, silent=()):
        policy = policy or parsed(
            dontschedule=[rule("m GreaterThan 0")], scheduleonmetric=[rule("m LessThan 0")]
        )
        store = Store(stale_after=30.0, started=0.0 if not silent else NOW)
        store.subscribe(policy.metrics)
        for node, value in zip(NODES, values, strict=True):
            if node not in silent:
                store.report(node, Delta({"m": value}), NOW)
        return decide([policy], NODES, store, now=NOW)

    return run


def test_filter_names_violating_nodes_with_their_reason(decisions):
    answer = verbs.answer_filter(ask(), decisions())
    assert (answer.result, answer.policy) == (Result.DECIDED, "demo")
    assert answer.failed == dict.fromkeys(["b", "c"], "violating demo: m GreaterThan 0")


def test_filter_reports_only_requested_nodes(decisions):
    answer = verbs.answer_filter(ask(names=("c", "unknown")), decisions())
    assert set(answer.failed) == {"c"}


def test_prioritize_ranks_requested_nodes(decisions):
    answer = verbs.answer_prioritize(ask(names=("c", "unknown", "b")), decisions())
    assert (answer.result, answer.scores) == (Result.DECIDED, [("c", 9), ("b", 10)])


@pytest.mark.parametrize(
    ("asked", "outcome", "policy"),
    [
        (ask(None), Result.NO_LABEL, ""),
        (ask(""), Result.NO_LABEL, ""),
        (ask("other"), Result.NO_POLICY, "other"),
        (ask(namespace="elsewhere"), Result.NO_POLICY, "demo"),
    ],
)
def test_everything_passes_unscored_without_a_policy(decisions, asked, outcome, policy):
    filtered = verbs.answer_filter(asked, decisions())
    assert (filtered.result, filtered.policy, filtered.failed) == (outcome, policy, {})
    ranked = verbs.answer_prioritize(asked, decisions())
    assert (ranked.result, ranked.policy, ranked.scores) == (outcome, policy, [])


def test_observed_policy_passes_every_node_and_counts_what_it_would_reject(decisions, parsed, rule):
    rules = {"dontschedule": [rule("m GreaterThan 0")], "scheduleonmetric": [rule("m LessThan 0")]}
    observed = replace(parsed(**rules), observed_by="--observe")
    for found in (decisions(observed), decisions(observed, silent=("a",))):  # never a 503
        answer = verbs.answer_filter(ask(), found)
        assert (answer.result, answer.failed) == (Result.OBSERVED, {})
        assert set(answer.observed) == {"b", "c"}
        ranked = verbs.answer_prioritize(ask(), found)
        assert (ranked.result, ranked.scores) == (Result.OBSERVED, [])


def test_no_policy_is_found_before_the_first(decisions):
    assert verbs.answer_filter(ask(), Decisions()).result is Result.NO_POLICY


@pytest.mark.parametrize(
    "strategies",
    [
        {"deschedule": [{"metricname": "m", "operator": "Equals", "target": 9}]},
        {"dontschedule": [], "scheduleonmetric": []},
        {"dontschedule": None, "scheduleonmetric": {"rules": None}},
        {"dontschedule": [{"metricname": "m"}], "scheduleonmetric": [{"operator": "LessThan"}]},
    ],
    ids=["another strategy", "no rules", "no list", "no readable rules"],
)
def test_everything_passes_unscored_without_rules(decisions, parsed, strategies):
    found = decisions(parsed(**strategies))
    filtered = verbs.answer_filter(ask(), found)
    assert (filtered.result, filtered.failed) == (Result.NO_RULES, {})
    ranked = verbs.answer_prioritize(ask(), found)
    assert (ranked.result, ranked.scores) == (Result.NO_RULES, [])


@pytest.mark.parametrize("elsewhere", ["elsewhere", "ns/demo", "ns/", "NS", "", "n%73"])
@pytest.mark.parametrize("name", ["demo", "ns/demo", "../ns/demo", "/demo"])
def test_policy_applies_in_its_own_namespace_only(decisions, elsewhere, name):
    """For any spelling of the pod's label and namespace."""
    found = decisions()
    for ask_for in (verbs.answer_filter, verbs.answer_prioritize):
        assert ask_for(ask(name, namespace=elsewhere), found).result is Result.NO_POLICY


def test_pod_without_a_namespace_is_in_default(decisions, parsed, rule):
    found = decisions(parsed("demo", "default", dontschedule=[rule("m Equals 0")]))
    assert set(verbs.answer_filter(ask(namespace=""), found).failed) == {"a"}


@pytest.mark.parametrize("answer", [verbs.answer_filter, verbs.answer_prioritize])
def test_no_answer_while_a_requested_node_is_pending(decisions, answer):
    found = decisions(silent=("c",))
    with pytest.raises(NotReadyError, match="the first readings for policy ns/demo"):
        answer(ask(), found)
    assert answer(ask(names=("a", "b")), found).result is Result.DECIDED
    assert answer(ask("other"), found).result is Result.NO_POLICY


def test_scorer_rules_are_evaluated_for_the_pod(parsed):
    rule = {"metricname": "plimsoll_risk", "operator": "GreaterThan", "target": 0.3}
    derived = Vocabulary(derived=frozenset({"plimsoll_risk"}))
    policy = parsed(dontschedule=[rule], vocabulary=derived)
    known = decide([policy], NODES, Store(stale_after=30.0, started=0.0), now=NOW)
    args = ask()

    def for_pod(asked, decision, decisions):
        assert (asked, decisions) == (args, known)
        return replace(decision, violations={StrategyName.DONTSCHEDULE: {"b": "too risky"}})

    assert verbs.answer_filter(args, known).failed == {}
    assert verbs.answer_filter(args, known, for_pod).failed == {"b": "too risky"}


def test_policy_without_scorer_rules_is_looked_up_directly(decisions):
    def never(*_asked):
        raise AssertionError

    assert set(verbs.answer_filter(ask(), decisions(), never).failed) == {"b", "c"}
    assert verbs.answer_prioritize(ask(), decisions(), never).result is Result.DECIDED


def test_an_earlier_attempt_does_not_count_against_its_own_pod():
    """kube-scheduler asks anew after a failed binding; other pods count where they were sent."""
    world = World([1, 2, 8])
    counting = CountingVerbs(world.placements)

    def asked(uid):
        pod = replace(ask(names=tuple(world.nodes)), uid=uid)
        counting.filter(pod, world.decisions, world.now)
        return dict(counting.prioritize(pod, world.decisions, world.now).scores)

    first = asked("u-1")
    assert asked("u-1") == asked("u-1") == first == {"n00": 10, "n01": 9, "n02": 8}
    assert asked("u-2") != first
