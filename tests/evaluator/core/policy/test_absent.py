"""Metrics that some nodes never had: absent readings count apart from missing ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import parse
from evaluator.core.readings.store import Store
from tests.evaluator.conftest import make_rule, make_tas
from wire.codec import Delta

STALE, NOW = 30.0, 1000.0
NODES = tuple("abcd")
KEY = PolicyKey("ns", "demo")
IGNORE = {"dontschedule": [make_rule("m GreaterThan 5")]}
VIOLATE = {"dontschedule": [{**make_rule("m GreaterThan 5"), "whenMissing": "violate"}]}
PEERS = {"deschedule": [make_rule("m:peer_deviation GreaterThan 5")]}

REPORTS = {
    "low": Delta({"m": 1.0}),
    "high": Delta({"m": 9.0}),
    "infinite": Delta({"m": math.inf}),
    "nan": Delta({"m": math.nan}),
    "several": Delta(several={"m": 2}),
    "unread": Delta(unread=["m"]),
    "lost": Delta(absent=["m"]),
    "absent": Delta(absent=["m"], never_had=frozenset({"m"})),
}
SILENT = "silent"
HAVING = {"low", "high", "infinite", "nan", "several"}


class World:
    """Nodes that report a metric, and the decisions on it."""

    def __init__(self, strategies):
        self.policy = parse(make_tas(**strategies))
        self.store = Store(stale_after=STALE, started=0.0)
        self.store.subscribe(["m"])
        self.before = None

    def report(self, now=NOW, **states):
        for node, state in states.items():
            if state != SILENT:
                self.store.report(node, REPORTS[state], now)

    def decide(self, now=NOW, nodes=NODES, *, anew=False):
        before = None if anew else self.before
        found = decide([self.policy], nodes, self.store, now=now, before=before)
        if not anew:
            self.before = found
        return found.policies[KEY]


@pytest.fixture
def world():
    return World(IGNORE)


def test_absent_nodes_count_apart_and_violate_nothing(world):
    world.report(a="high", b="absent", c="absent", d="low")
    decision = world.decide()
    assert (decision.missing, decision.absent) == ({}, {"m": ("b", "c")})
    assert set(decision.dontschedule) == {"a"}


def test_lost_unread_and_stale_metrics_are_missing(world):
    world.report(now=NOW - STALE - 1, d="absent")
    world.report(a="low", b="lost", c="unread")
    decision = world.decide()
    assert (decision.missing, decision.absent) == ({"m": ("b", "c", "d")}, {})


def test_metric_that_no_node_has_is_missing(world):
    world.report(**dict.fromkeys(NODES, "absent"))
    decision = world.decide()
    assert (decision.missing, decision.absent) == ({"m": NODES}, {})
    assert decision.not_found == ("m",)


@pytest.mark.parametrize("other", ["several", "nan", "unread"])
def test_metric_of_a_node_without_a_usable_reading_exists(world, other):
    world.report(a="absent", b=other, c="absent", d="absent")
    decision = world.decide()
    assert (decision.missing, decision.absent) == ({"m": ("b",)}, {"m": ("a", "c", "d")})


def test_metric_of_a_deleted_node_is_missing_on_the_others(world):
    world.report(a="low", b="absent")
    assert world.decide(nodes=("a", "b")).absent == {"m": ("b",)}
    decision = world.decide(nodes=("b",))
    assert (decision.missing, decision.absent) == ({"m": ("b",)}, {})


def test_when_missing_violate_applies_to_absent_metrics_too():
    world = World(VIOLATE)
    world.report(a="low", b="absent", c="lost", d="low")
    decision = world.decide()
    assert set(decision.dontschedule) == {"b", "c"}
    assert (decision.missing, decision.absent) == ({"m": ("c",)}, {"m": ("b",)})
    assert decision.policy.strict_metrics == {"m"}


def test_metric_on_peers_is_absent_where_its_base_is():
    world = World(PEERS)
    nodes = tuple(f"n{number}" for number in range(12))
    world.report(**dict.fromkeys(nodes[:10], "low"), n10="absent", n11="lost")
    decision = world.decide(nodes=nodes)
    assert decision.missing == {"m:peer_deviation": ("n11",)}
    assert decision.absent == {"m:peer_deviation": ("n10",)}


def test_decision_is_renewed_when_only_the_reason_of_an_absence_changes(world):
    world.report(a="low", b="lost", c="absent", d="low")
    first = world.decide()
    assert world.decide() is first
    world.report(b="absent")
    assert world.decide().absent == {"m": ("b", "c")}
    world.report(c="lost")
    assert (world.before.policies[KEY].missing, world.decide().missing) == ({}, {"m": ("c",)})


def test_new_agents_beside_old_ones_count_apart(world):
    """An agent that does not know the field reports a metric as absent, which may be lost: it is missing, as before."""
    world.report(a="low", b="lost", c="absent", d="lost")
    decision = world.decide()
    assert (decision.missing, decision.absent) == ({"m": ("b", "d")}, {"m": ("c",)})


states = st.sampled_from([*REPORTS, SILENT])
rounds = st.lists(st.fixed_dictionaries(dict.fromkeys(NODES, states)), min_size=1, max_size=6)


@given(rounds, st.sampled_from([IGNORE, VIOLATE]))
def test_nodes_are_absent_missing_or_usable_whatever_they_reported_before(rounds, strategies):
    world, last, value_at = World(strategies), {}, {}
    for number, reports in enumerate(rounds):
        now = NOW + 20 * number
        world.report(now, **reports)
        for node, state in reports.items():
            if state != SILENT:
                last[node] = (state, now)
            if state not in {SILENT, "unread"}:
                value_at[node] = (state, now)
        decision = world.decide(now)
        fresh = {node: s for node, (s, at) in last.items() if now - at <= STALE}
        known = {node: s for node, (s, _) in value_at.items()}
        exists = any(known.get(node) in HAVING or fresh.get(node) == "unread" for node in NODES)
        lacking = {node for node, state in fresh.items() if state in {"absent", "lost"}}
        absent = {n for n, s in fresh.items() if s == "absent" and (exists or not lacking)}
        usable = set(NODES) - {*decision.missing.get("m", ())} - {*decision.absent.get("m", ())}
        assert set(decision.absent.get("m", ())) == absent
        assert not absent & set(decision.missing.get("m", ()))
        assert all(known[node] in {"low", "high", "infinite"} for node in usable)
        scratch = world.decide(now, anew=True)
        for part in ("missing", "absent", "violations", "not_found"):
            assert getattr(scratch, part) == getattr(decision, part)
        violating = set(decision.dontschedule)
        assert (absent <= violating) if strategies is VIOLATE else not (absent & violating)


def test_column_of_thousands_of_nodes_is_compared_without_their_names(world):
    """Absent nodes are a mask: no node is looked at by name."""
    nodes = tuple(f"n{number}" for number in range(5000))
    for number, node in enumerate(nodes):
        world.report(**{node: "absent" if number % 2 else "low"})
    found = decide([world.policy], nodes, world.store, now=NOW)
    column = found.table.column("m")
    assert column.absent is not None
    assert np.count_nonzero(column.absent.mask) == 2500
    assert "names" not in vars(column.absent)
