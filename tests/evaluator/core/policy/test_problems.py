"""A policy that refuses every node from its first evaluation on has a problem, and only then; metrics that no node has."""

import dataclasses

import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy import problems
from evaluator.core.policy.decide import decide
from evaluator.core.policy.problems import refusal_problem
from evaluator.core.policy.vocabulary import NO_FEATURES, Vocabulary
from evaluator.core.readings.column import Reading
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.store import Store
from wire.codec import Delta

KEY = PolicyKey("ns", "demo")
NOW = 1000.0


class Cluster:
    """Decisions over time; a restart forgets all of them."""

    def __init__(self, *, started=0.0):
        self.store = Store(stale_after=30.0, started=started)
        self.store.subscribe(["m"])
        self.decisions = None

    def decide(self, policy, nodes=("a", "b"), **values):
        for node, value in values.items():
            self.store.report(node, Delta({"m": value}), NOW)
        self.decisions = decide([policy], nodes, self.store, now=NOW, before=self.decisions)
        return self.decisions.policies[KEY]


@pytest.fixture
def demo(parsed, rule):
    return parsed(dontschedule=[rule("m GreaterThan 5")], generation=3)


def test_policy_that_refuses_every_node_at_once_has_a_problem_until_one_is_allowed(demo):
    cluster = Cluster()
    for _ in range(2):
        found = cluster.decide(demo, a=9.0, b=9.0)
        assert found.problems == found.stable_problems == (refusal_problem(demo),)
    assert cluster.decide(demo, b=1.0).problems == ()
    assert cluster.decide(demo, b=9.0).problems == (), "it is reported once"


def test_nodes_that_all_become_bad_later_are_no_problem_of_the_policy(demo):
    cluster = Cluster()
    assert cluster.decide(demo, a=1.0, b=9.0).problems == ()
    assert cluster.decide(demo, a=9.0).problems == ()


def test_awaited_first_readings_are_no_evaluation(demo):
    cluster = Cluster(started=NOW)
    assert cluster.decide(demo, a=9.0).refuses_all is None
    assert cluster.decide(demo, b=9.0).refuses_all is True


def test_no_nodes_are_no_evaluation(demo):
    assert Cluster().decide(demo, nodes=()).problems == ()


def test_edit_is_evaluated_for_the_first_time(demo):
    cluster = Cluster()
    cluster.decide(demo, a=1.0, b=9.0)
    edited = dataclasses.replace(demo, generation=4)
    assert cluster.decide(edited, a=9.0).problems == (refusal_problem(edited),)


def test_observed_policy_would_refuse(demo):
    observed = dataclasses.replace(demo, observed_by="--observe")
    (problem,) = Cluster().decide(observed, a=9.0, b=9.0).problems
    assert problem.startswith("dontschedule would refuse every node at its first evaluation")


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": 5},
        {"conditions": ["x", {"type": "Valid", "observedGeneration": 3, "message": None}]},
        {"conditions": [{"type": "Valid", "observedGeneration": 2, "message": "every node at"}]},
    ],
)
def test_malformed_status_is_ignored(demo, status):
    found = Cluster().decide(dataclasses.replace(demo, status=status), a=9.0, b=9.0)
    assert found.refuses_all is True


HAS, LACKS, SEVERAL, UNREAD, SILENT, STALE = "has", "lacks", "several", "unread", "silent", "stale"
DELTAS = {
    HAS: Delta({"m": 1.0}),
    STALE: Delta({"m": 1.0}),
    LACKS: Delta(absent=["m"]),
    SEVERAL: Delta(several={"m": 3}),
    UNREAD: Delta(unread=["m"]),
}


@pytest.fixture
def decided(parsed, rule):
    """The decision for a policy on m, and the table, over nodes in these states."""

    def run(*states, starting=False, rules=("m GreaterThan 5",), vocabulary=NO_FEATURES):
        rules = [rule(text) for text in rules]
        policy = parsed(dontschedule=rules, vocabulary=vocabulary)
        store = Store(stale_after=30.0, started=NOW if starting else 0.0)
        store.subscribe(["m"])
        for number, state in enumerate(states):
            if state != SILENT:
                store.report(f"n{number}", DELTAS[state], NOW - (60 if state == STALE else 0))
        nodes = [f"n{number}" for number in range(len(states))]
        decisions = decide([policy], nodes, store, now=NOW)
        return decisions.policies[policy.key], decisions.table

    return run


def state(found, similar=()):
    decision, table = found
    return problems.metrics_found(
        decision.policy, decision.not_found, table, lambda _metric: similar
    )


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ([HAS, HAS], "True"),
        ([HAS, LACKS], "True"),
        ([SEVERAL, LACKS], "True"),
        ([STALE, LACKS], "True"),
        ([LACKS, LACKS], "False"),
        ([LACKS, SILENT], "False"),
        ([LACKS, UNREAD], "Unknown"),
        ([SILENT, SILENT], "Unknown"),
        ([], "Unknown"),
    ],
)
def test_metric_is_missing_if_nodes_reported_without_it_and_none_has_it(decided, states, status):
    assert state(decided(*states))[0] == status


def test_pending_metric_is_not_called_missing(decided):
    status, reason, message = state(decided(LACKS, SILENT, starting=True))
    assert (status, reason) == ("Unknown", "ReadingsAwaited")
    assert message == "no node has reported m yet"


def test_message_has_the_number_of_nodes_and_similar_metrics(decided):
    found = decided(LACKS, LACKS, LACKS)
    status, reason, message = state(found, ("mm", "om"))
    assert (status, reason) == ("False", "MetricsNotFound")
    assert message == "m is on none of 3 nodes; similar metrics that nodes have: mm, om"


def test_problems_without_the_condition_have_similar_metrics(decided):
    lacks, _ = decided(LACKS)
    assert lacks.problems == ("no node has the metric m: see the condition MetricsFound",)
    found = problems.with_similar(lacks.problems, lacks.not_found, lambda _: ("mm",))
    assert found == ["no node has the metric m; similar metrics that nodes have: mm"]
    found = problems.with_similar(lacks.problems, lacks.not_found, lambda _: None)
    assert found == ["no node has the metric m"]


def test_event_waits_until_similar_metrics_are_known(decided):
    lacks, _ = decided(LACKS)
    assert problems.not_found_events(lacks.not_found, lambda _: None) == {}
    (event,) = problems.not_found_events(lacks.not_found, lambda _: ("mm",)).values()
    assert (event.type, event.reason) == ("Warning", "MetricNotFound")
    assert event.message == (
        "no node has the metric m; similar metrics that nodes have: mm; see the condition MetricsFound"
    )
    assert problems.not_found_events(decided(HAS)[0].not_found, lambda _: ()) == {}


def test_metric_of_a_scorer_is_not_looked_for(decided):
    derived = Vocabulary(derived=frozenset({"plimsoll_risk"}))
    rules = ("m GreaterThan 5", "plimsoll_risk GreaterThan 1")
    found = decided(HAS, rules=rules, vocabulary=derived)
    assert state(found)[0] == "True"
    assert found[0].not_found == ()


def test_polled_answer_without_the_metric_counts_as_missing(parsed, rule):
    policy = parsed(dontschedule=[rule("m GreaterThan 5")])
    store = PolledReadings("prometheus", stale_after=30.0, started=0.0)
    store.subscribe(["m"])
    store.answer("m", {"gone": Reading(1, 1.0, NOW)}, NOW)
    decisions = decide([policy], ["n0"], store, now=NOW)
    assert decisions.policies[policy.key].not_found == ("m",)


def test_fault_of_a_polled_source_is_in_the_message(parsed, rule):
    policy = parsed(dontschedule=[rule("m GreaterThan 5")])
    store = PolledReadings("prometheus", stale_after=30.0, started=0.0)
    store.subscribe(["m"])
    store.failed("m", "no series for any node")
    decisions = decide([policy], ["n0"], store, now=NOW)
    found = decisions.policies[policy.key], decisions.table
    assert state(found) == (
        "Unknown",
        "SourceFailing",
        "no source has metric m (prometheus: no series for any node)",
    )
