"""/explain: every reading with age and state, every rule with its violating nodes, in plain JSON."""

import json
import math
from dataclasses import replace

import pytest
from msgspec import to_builtins

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.policy.problems import refusal_problem
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.readings.column import Reading
from evaluator.core.readings.merged import Merged
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.store import Store
from evaluator.features.pages.explain.policy import MOST_READINGS, explain, overview
from plimsoll.steps import finished
from wire.codec import Delta

START = 1000.0
KEY = PolicyKey("ns", "demo")


@pytest.fixture
def store():
    made = Store(stale_after=30.0, started=START)
    made.subscribe(["m"])
    return made


@pytest.fixture
def demo(parsed, rule):
    return parsed(
        dontschedule=[rule("m GreaterThan 5"), rule("m LessThan 0")],
        scheduleonmetric=[rule("m LessThan 0")],
        deschedule={"rules": [rule("m GreaterThan 9")], "logicalOperator": "allOf"},
        labeling=[rule("m GreaterThan 9", "hot=yes")],
        generation=3,
    )


def whole(found):
    return to_builtins(found.head) | {"nodes": to_builtins(dict(found.nodes))}


@pytest.fixture
def explained(store, demo):
    def run(*nodes, now, decided_at=None):
        decisions = decide([demo], nodes, store, now=decided_at or now)
        found = whole(finished(explain(decisions, KEY, store, now=now)))
        return json.loads(json.dumps(found, allow_nan=False))  # it has to be JSON

    return run


def test_whole_explanation_is_as_documented(store, explained):
    store.report("a", Delta({"m": 1.5}), START)
    store.report("b", Delta({"m": 10.0}), START + 1)
    key = "telemetry.aware.scheduling.demo/hot"
    assert explained("a", "b", now=START + 2.25) == {
        "waitingFor": [],
        "policy": "ns/demo",
        "generation": 3,
        "enforcement": {"mode": "enforce"},
        "problems": [],
        "warnings": [],
        "awaited": [],
        "strategies": {
            "dontschedule": {
                "logicalOperator": "anyOf",
                "words": "Pods of this policy are not scheduled on nodes where any of these rules holds",
                "rules": [
                    {"rule": "m GreaterThan 5", "words": "m is greater than 5", "broken": ["b"]},
                    {"rule": "m LessThan 0", "words": "m is less than 0", "broken": []},
                ],
            },
            "deschedule": {
                "logicalOperator": "allOf",
                "words": "Pods of this policy should leave nodes where this rule holds",
                "rules": [
                    {"rule": "m GreaterThan 9", "words": "m is greater than 9", "broken": ["b"]}
                ],
            },
            "labeling": {
                "logicalOperator": "anyOf",
                "words": "Nodes get the labels of each rule that holds",
                "rules": [
                    {
                        "rule": "m GreaterThan 9",
                        "words": "m is greater than 9",
                        "broken": ["b"],
                        "labels": {key: "yes"},
                    }
                ],
            },
        },
        "scheduleonmetric": {
            "metric": "m",
            "words": "Pods of this policy prefer nodes where m is lowest",
            "order": "lower is better",
            "scores": {"a": 10, "b": 9},
        },
        "nodes": {
            "a": {
                "readings": {"m": {"value": 1.5, "ageSeconds": 2.25, "state": "fresh"}},
                "dontschedule": None,
                "deschedule": None,
                "labels": {},
            },
            "b": {
                "readings": {"m": {"value": 10.0, "ageSeconds": 1.25, "state": "fresh"}},
                "dontschedule": "violating demo: m GreaterThan 5",
                "deschedule": "violating demo: m GreaterThan 9",
                "labels": {"demo": "violating", key: "yes"},
            },
        },
    }


def test_vanished_agent_is_explained_as_stale_with_its_last_reading(store, explained):
    store.report("a", Delta({"m": 7.0}), START)
    found = explained("a", now=START + 45)["nodes"]["a"]
    assert found["readings"]["m"] == {
        "value": 7.0,
        "ageSeconds": 45.0,
        "state": "stale: too old to rely on",
    }
    assert found["dontschedule"] is None


@pytest.mark.parametrize(
    ("report", "later", "value", "state"),
    [
        (None, 1, None, "awaited: no first report yet"),
        (None, 31, None, "missing: never reported"),
        (Delta(absent=["m"]), 1, None, "absent: the node does not have this metric"),
        (
            Delta(absent=["m"], never_had=frozenset({"m"})),
            1,
            None,
            "absent: the node never had this metric since its agent started",
        ),
        (
            Delta(several={"m": 4}),
            1,
            None,
            "ambiguous: 4 series, no single value (`problems` says what to do)",
        ),
        (Delta({"m": math.inf}), 1, "+Inf", "fresh"),
        (Delta({"m": -math.inf}), 1, "-Inf", "fresh"),
        (Delta({"m": math.nan}), 1, "NaN", "fresh, but not a number"),
        (Delta(unread=["m"]), 31, None, "stale: too old to rely on"),
    ],
)
def test_unusual_values_are_explained_in_words(store, explained, report, later, value, state):
    if report is not None:
        store.report("a", report, START)
        if report.unread:
            store.report("a", report, START + later)
            state = "unread: its source cannot be read, nothing is known"
    found = explained("a", now=START + later)["nodes"]["a"]["readings"]["m"]
    assert (found["value"], found["state"]) == (value, state)


def test_unread_metric_keeps_its_fresh_reading(store, explained):
    store.report("a", Delta({"m": 7.0}), START)
    store.report("a", Delta(unread=["m"]), START + 10)
    found = explained("a", now=START + 12)["nodes"]["a"]["readings"]["m"]
    assert found == {
        "value": 7.0,
        "ageSeconds": 12.0,
        "state": "unread: its source cannot be read, the last reading still counts",
    }


def test_unknown_policy_has_no_explanation(store, demo):
    decisions = decide([demo], ["a"], store, now=START)
    assert finished(explain(decisions, PolicyKey("ns", "other"), store, now=START)) is None


def test_overview_lists_all_policies_with_links(store, demo, parsed, rule):
    store.report("a", Delta({"m": 10.0}), START)
    other = parsed("other", nonsense=[])
    decisions = decide([other, demo], ["a"], store, now=START)
    found = overview(decisions.policies, decisions.table)
    assert {"policies": to_builtins(list(found))} == {
        "policies": [
            {
                "policy": "ns/demo",
                "explain": "/explain/ns/demo",
                "dontschedule": ["a"],
                "deschedule": ["a"],
                "enforcement": "enforce",
                "problems": [refusal_problem(demo)],
                "warnings": [],
            },
            {
                "policy": "ns/other",
                "explain": "/explain/ns/other",
                "dontschedule": [],
                "deschedule": [],
                "enforcement": "enforce",
                "problems": list(other.problems),
                "warnings": [],
            },
        ]
    }


def test_each_reading_names_its_source_if_there_are_several(store, demo):
    polls = PolledReadings("prometheus", stale_after=30.0, started=START)
    merged = Merged({"agents": store, "prometheus": polls})
    merged.subscribe(["m"])
    store.report("a", Delta({"m": 1.0}), START)
    polls.answer("m", {"b": Reading(1, 2.0, START)}, START)
    decisions = decide([demo], ["a", "b"], merged, now=START)
    found = whole(finished(explain(decisions, KEY, merged, now=START)))
    assert [found["nodes"][node]["readings"]["m"]["source"] for node in ("a", "b")] == [
        "agents",
        "prometheus",
    ]


def test_page_names_some_nodes_and_counts_the_rest(parsed, rule):
    """One policy within all limits, over many nodes: violating ones are shown, any other on request."""
    metrics = [f"m{number}" for number in range(100)]
    store = Store(stale_after=30.0, started=START)
    store.subscribe(metrics)
    nodes = [f"node-{number:04}" for number in range(1_000)]
    for number, node in enumerate(nodes):
        store.report(node, Delta(dict.fromkeys(metrics, float(number == 777))), START)
    big = parsed(
        dontschedule=[rule(f"{metric} Equals 1") for metric in metrics],
        deschedule=[rule(f"{metric} Equals 0") for metric in metrics],
    )
    mild = replace(big, strategies={StrategyName.DONTSCHEDULE: big.strategies["dontschedule"]})
    found = whole(finished(explain(decide([mild], nodes, store, now=START), KEY, store, now=START)))
    shown = MOST_READINGS // len(metrics)
    assert len(found["nodes"]) == shown
    assert found["nodesMore"] == len(nodes) - shown
    assert found["nodes"]["node-0777"]["dontschedule"]
    decisions = decide([big], nodes, store, now=START)
    found = whole(finished(explain(decisions, KEY, store, now=START)))
    rules = found["strategies"]["deschedule"]["rules"]
    assert {(len(one["broken"]), one["brokenMore"]) for one in rules} == {(100, 899)}
    found = whole(finished(explain(decisions, KEY, store, now=START, node="node-0999")))
    assert [*found["nodes"]] == ["node-0999"]
    [policy] = overview(decisions.policies, decisions.table)
    assert (policy.deschedule, policy.deschedule_more) == (nodes[:10], 989)
