"""The condition MetricsFound, and the events about metrics that no node has."""

import pytest

from evaluator.core.policy import metrics_found
from evaluator.core.policy.decide import decide
from evaluator.core.readings.column import Reading
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.store import Store
from wire.codec import Delta

NOW = 1000.0
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

    def run(*states, starting=False, rules=("m GreaterThan 5",)):
        policy = parsed(dontschedule=[rule(text) for text in rules])
        store = Store(stale_after=30.0, started=NOW if starting else 0.0)
        store.subscribe(["m"])
        for number, state in enumerate(states):
            if state != SILENT:
                store.report(f"n{number}", DELTAS[state], NOW - (60 if state == STALE else 0))
        nodes = [f"n{number}" for number in range(len(states))]
        decisions = decide([policy], nodes, store, now=NOW)
        return decisions.policies[policy.key], decisions.table

    return run


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
    assert metrics_found.state(*decided(*states), lambda _: ())[0] == status


def test_pending_metric_is_not_called_missing(decided):
    status, reason, message = metrics_found.state(
        *decided(LACKS, SILENT, starting=True), lambda _: ()
    )
    assert (status, reason) == ("Unknown", "ReadingsAwaited")
    assert message == "no node has reported m yet"


def test_message_has_the_number_of_nodes_and_similar_metrics(decided):
    found = decided(LACKS, LACKS, LACKS)
    status, reason, message = metrics_found.state(*found, lambda _: ("mm", "om"))
    assert (status, reason) == ("False", "MetricsNotFound")
    assert message == "m is on none of 3 nodes; similar metrics that nodes have: mm, om"


def test_problems_without_the_condition_have_similar_metrics(decided):
    lacks, _ = decided(LACKS)
    assert lacks.problems == ("no node has the metric m: see the condition MetricsFound",)
    found = metrics_found.problems(lacks, lambda _: ("mm",))
    assert found == ["no node has the metric m; similar metrics that nodes have: mm"]
    assert metrics_found.problems(lacks, lambda _: None) == ["no node has the metric m"]


def test_event_waits_until_similar_metrics_are_known(decided):
    lacks, _ = decided(LACKS)
    assert metrics_found.events(lacks, lambda _: None) == {}
    (event,) = metrics_found.events(lacks, lambda _: ("mm",)).values()
    assert (event.type, event.reason) == ("Warning", "MetricNotFound")
    assert event.message == (
        "no node has the metric m; similar metrics that nodes have: mm; see the condition MetricsFound"
    )
    assert metrics_found.events(decided(HAS)[0], lambda _: ()) == {}


def test_metric_of_a_scorer_is_not_looked_for(decided):
    found = decided(HAS, rules=("m GreaterThan 5", "plimsoll_risk GreaterThan 1"))
    assert metrics_found.state(*found, lambda _: ())[0] == "True"
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
    assert metrics_found.state(*found, lambda _: ()) == (
        "Unknown",
        "SourceFailing",
        "no source has metric m (prometheus: no series for any node)",
    )
