"""`for`, `clearAfter` and `whenMissing` over time: flapping, restarts, edits and order of arrival."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decisions, decide
from evaluator.core.policy.parse import parse
from evaluator.core.policy.types import StrategyName
from evaluator.core.readings.store import Store
from tests.examples import examples
from wire.codec import Delta

KEY = PolicyKey("ns", "demo")
START = 1000.0
BROKEN, FINE = 9.0, 0.0
RULE = {"metricname": "m", "operator": "GreaterThan", "target": 5}


def policy(*rules, strategy="deschedule", uid="u", **terms):
    """A policy of one strategy; `for_` stands for `for`."""
    spelled = {name.rstrip("_"): value for name, value in terms.items()}
    body = {"rules": list(rules) or [RULE], **spelled}
    meta = {"name": "demo", "namespace": "ns", "uid": uid}
    return parse({"metadata": meta, "spec": {"strategies": {strategy: body}}})


class World:
    """Repeated decide() calls, each with the previous result, as in the evaluator."""

    def __init__(self, policy, *, nodes=("n",), stale_after=1e6, labels=None):
        self.policy = policy
        self.nodes = nodes
        self.labels = labels or {}
        self.now = START
        self.store = Store(stale_after=stale_after, started=-1e7)
        self.decisions = Decisions()

    def restart(self):
        """Restart: only the cluster's state remains."""
        self.labels = {node: dict(labels) for node, labels in self.decisions.labels.items()}
        self.decisions = Decisions()

    def at(self, seconds, *values, **named):
        """The violating nodes this many seconds after the start; values as read from now on, None if absent."""
        self.now = START + seconds
        self.store.subscribe(self.policy.metrics)
        for node, value in zip(self.nodes, values, strict=False):
            self.read(node, **{"m": value, **named})
        return self.decide()

    def read(self, node, **values):
        known = {metric: value for metric, value in values.items() if value is not None}
        asked = self.store.metrics
        said = {metric: value for metric, value in known.items() if metric in asked}
        self.store.report(node, Delta(said, asked - said.keys()), self.now)

    def decide(self):
        self.decisions = decide(
            [self.policy],
            self.nodes,
            self.store,
            now=self.now,
            before=self.decisions,
            labels_of=lambda node: self.labels.get(node, {}),
        )
        return set(self.decision.deschedule) | set(self.decision.dontschedule)

    @property
    def decision(self):
        return self.decisions.policies[KEY]

    @property
    def due(self):
        """Seconds after the start of the next decision."""
        return self.decisions.valid_until - START


def test_readings_count_at_once_without_durations():
    world = World(policy())
    seen = [bool(world.at(second, value)) for second, value in enumerate([FINE, BROKEN, FINE])]
    assert seen == [False, True, False]


@pytest.mark.parametrize("strategy", ["deschedule", "dontschedule"])
def test_for_requires_its_whole_duration(strategy):
    world = World(policy(strategy=strategy, for_="30s"))
    assert not world.at(0, BROKEN)
    assert world.due == 30
    assert not world.at(29.999)
    assert world.at(30) == {"n"}
    assert world.due > 1e5  # time alone changes nothing else
    assert not world.at(31, FINE)


def test_interruption_restarts_for():
    world = World(policy(for_="30s"))
    world.at(0, BROKEN)
    world.at(20, FINE)
    assert not world.at(25, BROKEN)
    assert world.due == 55
    assert not world.at(54)
    assert world.at(55) == {"n"}


def test_clear_after_requires_its_whole_duration():
    world = World(policy(clearAfter="60s"))
    assert world.at(0, BROKEN) == {"n"}
    assert world.at(10, FINE) == {"n"}
    assert world.due == 70
    assert world.at(40, BROKEN) == {"n"}
    assert world.at(50, FINE) == {"n"}
    assert world.due == 110
    assert world.at(109.9) == {"n"}
    assert not world.at(110)


def test_reason_is_stable_while_readings_flap():
    """A changed text would have the pod retried at once."""
    world = World(policy(strategy="dontschedule", clearAfter="60s", for_="10s"))
    world.at(0, BROKEN)
    texts = set()
    for second in range(10, 40):
        world.at(second, BROKEN if second % 2 == 0 else FINE)
        texts.add(world.decision.dontschedule["n"])
    assert texts == {"violating demo: m GreaterThan 5"}


def test_each_node_has_its_own_timer():
    world = World(policy(for_="30s"), nodes=("a", "b"))
    world.at(0, BROKEN, FINE)
    world.at(10, BROKEN, BROKEN)
    assert world.due == 30
    assert world.at(30) == {"a"}
    assert world.due == 40
    assert world.at(40) == {"a", "b"}


def test_added_and_removed_nodes_do_not_shift_timers():
    world = World(policy(for_="30s"), nodes=("b", "d"))
    world.at(0, BROKEN, BROKEN)
    world.nodes = ("a", "b", "c")
    world.at(10, FINE, BROKEN, FINE)
    assert world.at(30) == {"b"}
    world.nodes = ("b", "d")
    world.at(31, BROKEN, BROKEN)
    assert world.decide() == {"b"}, "d is another node than the one that had this name"
    assert world.due == 61


def test_all_of_waits_for_each_rule():
    other = {**RULE, "metricname": "o", "for": "0s"}
    world = World(policy({**RULE, "for": "30s"}, other, logicalOperator="allOf"))
    world.at(0, BROKEN, o=BROKEN)
    assert world.at(30) == {"n"}
    assert not world.at(31, BROKEN, o=FINE)
    assert world.at(32, BROKEN, o=BROKEN) == {"n"}, "the first rule was violated all the time"


def test_any_of_reason_names_the_first_violated_rule():
    world = World(policy({**RULE, "for": "30s"}, {**RULE, "target": 3}))
    world.at(0, BROKEN)
    assert world.decision.deschedule == {"n": "violating demo: m GreaterThan 3"}
    world.at(30)
    assert world.decision.deschedule == {"n": "violating demo: m GreaterThan 5"}


# Missing readings.


@pytest.mark.parametrize("value", [None, math.nan])
def test_missing_reading_matches_only_if_configured(value):
    assert not World(policy()).at(0, value)
    world = World(policy(whenMissing="violate"))
    assert world.at(0, value) == {"n"}
    assert world.decision.deschedule == {"n": "violating demo: m is missing"}
    assert world.decision.states[StrategyName.DESCHEDULE].missing_violations == 1


def test_missing_reading_counts_in_all_of_and_is_named():
    other = {**RULE, "metricname": "o", "whenMissing": "violate"}
    world = World(policy(RULE, other, logicalOperator="allOf"))
    assert world.at(0, BROKEN, o=None) == {"n"}
    assert world.decision.deschedule == {"n": "violating demo: m GreaterThan 5 and o is missing"}
    assert not world.at(1, FINE, o=None)


def test_several_samples_count_as_missing():
    world = World(policy(whenMissing="violate"))
    world.store.subscribe({"m"})
    world.store.report("n", Delta(several={"m": 3}), START)
    assert world.decide() == {"n"}


def test_stale_reading_counts_as_missing():
    world = World(policy(whenMissing="violate"), stale_after=30.0)
    assert not world.at(0, FINE)
    assert world.due == 30
    assert world.at(30.5) == {"n"}
    assert world.decision.deschedule == {"n": "violating demo: m is missing"}


def test_pending_reading_is_not_missing():
    world = World(policy(whenMissing="violate"), stale_after=30.0)
    world.store = Store(stale_after=30.0, started=START)
    assert not world.at(1)
    assert world.decision.unreported == {"n"}
    assert world.at(31) == {"n"}


def test_timer_that_waits_for_a_report_is_not_evaluated_again_and_again():
    world = World(policy(for_="30s"), stale_after=30.0)
    world.at(0, BROKEN)
    world.store = Store(stale_after=100.0, started=START)
    assert not world.at(40)
    assert world.decision.unreported == {"n"}
    assert world.due > 40
    assert world.at(41, BROKEN) == {"n"}


def test_for_and_clear_after_apply_to_missing_readings_too():
    world = World(policy(whenMissing="violate", for_="10s", clearAfter="20s"))
    world.at(0, FINE)
    assert not world.at(5, None)
    assert world.at(15) == {"n"}
    assert world.at(16, FINE) == {"n"}
    assert world.decision.deschedule == {"n": "violating demo: m is missing"}, (
        "the reason of its start"
    )
    assert not world.at(36)


def test_first_reading_clears_a_violation_by_absence_at_once():
    """Otherwise the order of node and agent registration would matter."""
    world = World(policy(whenMissing="violate", clearAfter="60s"))
    assert world.at(0) == {"n"}
    assert not world.at(1, FINE)
    assert world.at(2, None) == {"n"}
    assert world.at(3, FINE) == {"n"}, "this reading was lost, and returned"


def test_label_of_a_missing_reading_loses_to_one_with_a_reading():
    def labelled(metric, value):
        return {**RULE, "metricname": metric, "labels": [f"card={value}"], "whenMissing": "violate"}

    world = World(policy(labelled("m", "gone"), labelled("o", "hot"), strategy="labeling"))
    world.at(0, None, o=BROKEN)
    assert world.decision.labels == {"n": {"telemetry.aware.scheduling.demo/card": "hot"}}
    world.at(1, None, o=None)
    assert world.decision.labels == {"n": {"telemetry.aware.scheduling.demo/card": "gone"}}


# Restarts.


def test_restart_begins_a_running_for_again():
    world = World(policy(for_="30s"))
    world.at(0, BROKEN)
    world.at(20)
    world.restart()
    assert not world.at(21)
    assert not world.at(50)
    assert world.at(51) == {"n"}


def test_own_label_after_a_restart_continues_the_violation():
    world = World(policy(for_="30s", clearAfter="60s"))
    world.at(0, BROKEN)
    world.at(30)
    world.restart()
    assert world.labels == {"n": {"demo": "violating"}}
    assert world.at(40) == {"n"}, "no flap, although the for begins again"
    assert world.at(41, FINE) == {"n"}
    assert not world.at(101)


def test_label_is_kept_for_clear_after_following_a_restart():
    world = World(policy(clearAfter="60s"), labels={"n": {"demo": "violating"}})
    assert world.at(0, FINE) == {"n"}
    assert world.due == 60
    assert world.at(59.9) == {"n"}
    world.labels = {}
    assert not world.at(60)


def test_clear_after_of_an_inherited_label_starts_with_the_first_reading():
    world = World(policy(clearAfter="60s"), labels={"n": {"demo": "violating"}}, stale_after=30.0)
    world.store = Store(stale_after=30.0, started=START)
    world.at(1)
    assert world.decision.unreported == {"n"}
    assert world.at(20, FINE) == {"n"}
    assert world.due <= 80
    world.at(45, FINE)
    assert world.at(79, FINE) == {"n"}
    assert not world.at(80)


def test_label_of_the_matching_labeling_rule_is_kept_and_no_other():
    key = "telemetry.aware.scheduling.demo/card"
    rules = [
        {**RULE, "labels": ["card=low"]},
        {**RULE, "target": 7, "labels": ["card=high"]},
    ]
    world = World(policy(*rules, strategy="labeling", clearAfter="60s"), labels={"n": {key: "low"}})
    world.at(0, FINE)
    assert world.decisions.labels == {"n": {key: "low"}}
    world.at(60)
    assert world.decisions.labels == {}


def test_restart_forgets_violations_without_a_label():
    world = World(
        policy(strategy="dontschedule", clearAfter="60s"), labels={"n": {"demo": "violating"}}
    )
    assert not world.at(0, FINE)


# Edits.


def edited(before, after, *, second, value):
    """Whether n is violating right after an edit; `value` is its reading then."""
    world = World(before)
    world.at(0, BROKEN)
    world.at(second, value)
    world.labels = {node: dict(labels) for node, labels in world.decisions.labels.items()}
    world.policy = after
    world.decide()
    return world


def test_changed_for_continues_the_elapsed_time():
    world = edited(policy(for_="30s"), policy(for_="40s"), second=20, value=BROKEN)
    assert world.due == 40
    world = edited(policy(for_="30s"), policy(for_="10s"), second=20, value=BROKEN)
    assert world.decision.deschedule


def test_durations_added_to_a_violated_rule_do_not_interrupt_it():
    world = edited(policy(), policy(for_="30s", clearAfter="60s"), second=1, value=BROKEN)
    assert world.decision.deschedule
    assert world.at(2, FINE) == {"n"}
    assert not world.at(62)


def test_changed_target_that_is_violated_too_continues():
    world = edited(policy(for_="30s"), policy({**RULE, "target": 6}, for_="30s"), second=30, value=BROKEN)  # fmt: skip
    assert world.decision.deschedule


def test_changed_target_that_is_met_clears_after_its_duration():
    after = policy({**RULE, "target": 50}, for_="30s", clearAfter="60s")
    world = edited(policy(for_="30s", clearAfter="60s"), after, second=30, value=BROKEN)
    assert world.decision.deschedule
    assert not world.at(90)


def test_added_rule_inherits_no_timer():
    added = {**RULE, "metricname": "o", "for": "30s"}
    world = edited(policy(), policy(RULE, added), second=1, value=BROKEN)
    world.at(2, FINE, o=BROKEN)
    assert not world.decision.deschedule


def test_order_of_rules_is_no_change():
    other = {**RULE, "metricname": "o"}
    world = World(policy(RULE, other, for_="30s"))
    world.at(0, BROKEN, o=FINE)
    world.policy = policy(other, RULE, for_="30s")
    world.at(20)
    assert world.at(30) == {"n"}


def test_equal_rules_have_separate_timers():
    rules = [
        {**RULE, "labels": ["warn=yes"], "for": "10s"},
        {**RULE, "labels": ["page=yes"], "for": "30s"},
    ]
    world = World(policy(*rules, strategy="labeling"))
    prefix = "telemetry.aware.scheduling.demo"
    world.at(0, BROKEN)
    world.at(10)
    assert world.decision.labels == {"n": {f"{prefix}/warn": "yes"}}
    world.at(30)
    assert world.decision.labels == {"n": {f"{prefix}/warn": "yes", f"{prefix}/page": "yes"}}


def test_recreated_policy_has_no_history():
    world = World(policy(for_="30s"))
    world.at(0, BROKEN)
    world.policy = policy(for_="30s", uid="another")
    assert not world.at(20)
    assert world.due == 50


def test_pending_metric_stops_no_other_timer():
    world = World(policy(for_="30s"), stale_after=100.0)
    world.at(0, BROKEN)
    world.policy = policy(RULE, {**RULE, "metricname": "o"}, for_="30s")
    world.at(10)
    assert world.decision.unreported == {"n"}
    world.at(20, BROKEN, o=FINE)
    assert world.at(30) == {"n"}


# Random sequences.

pauses = st.integers(2, 160).map(lambda quarters: quarters / 4)  # exact in doubles
moments = st.lists(
    st.tuples(pauses, st.sampled_from([BROKEN, FINE, None])), min_size=1, max_size=25
)
seconds = st.sampled_from([0, 5, 30])


@settings(max_examples=examples(75), deadline=None)
@given(moments, seconds, seconds, st.sampled_from(["ignore", "violate"]))
def test_timers_agree_with_a_sequential_model(happenings, hold, clear, when_missing):
    """Compared with a sequential model, one moment after another."""
    terms = {"for_": f"{hold}s", "clearAfter": f"{clear}s", "whenMissing": when_missing}
    world = World(policy(**terms))
    world.at(0, FINE)
    violated, broken, since, second = False, False, 0.0, 0.0
    for pause, value in happenings:
        second += pause
        if second > since + (hold if broken else clear):  # changes by time alone meanwhile
            violated = broken
        if (value == BROKEN or (value is None and when_missing == "violate")) != broken:
            broken, since = not broken, second
        if second >= since + (hold if broken else clear):
            violated = broken
        if world.due < second:  # the evaluator wakes by itself
            world.at(world.due)
        assert bool(world.at(second, value)) is violated


arrivals = st.permutations(["policy", "node a", "node b", "agent a", "agent b"])
readings = st.fixed_dictionaries(
    {node: st.sampled_from([BROKEN, FINE, None]) for node in ("a", "b")}
)


@given(arrivals, readings, seconds, seconds, st.sampled_from(["ignore", "violate"]))
def test_order_of_arrival_does_not_change_the_decision(order, values, hold, clear, when_missing):
    terms = {"for_": f"{hold}s", "clearAfter": f"{clear}s", "whenMissing": when_missing}
    demo = policy(strategy="dontschedule", **terms)

    def outcome(order):
        store, decisions = Store(stale_after=1e6, started=-1e7), Decisions()
        known, nodes, agents = [], [], []
        for arrival in order:
            kind, _, name = arrival.partition(" ")
            {"policy": known, "node": nodes, "agent": agents}[kind].append(name or demo)
            store.subscribe({metric for one in known for metric in one.metrics})
            for node in agents if kind == "policy" else [name] if kind == "agent" else []:
                value = {} if values[node] is None else {"m": values[node]}
                said = {metric: v for metric, v in value.items() if metric in store.metrics}
                store.report(node, Delta(said, store.metrics - said.keys()), START)
            decisions = decide(known, nodes, store, now=START, before=decisions)
        later = decide([demo], ["a", "b"], store, now=START + 31, before=decisions)
        return [
            (dict(one.policies[KEY].dontschedule), one.valid_until) for one in (decisions, later)
        ]

    assert outcome(order) == outcome(sorted(order, reverse=True))
