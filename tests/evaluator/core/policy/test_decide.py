"""decide(): the decision of all policies at one moment, and pending nodes."""

import itertools
import math
import operator
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.decide import Decisions, decide, deciding
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.hints import aggregation_hint
from evaluator.core.policy.parse import parse as parse_policy
from evaluator.core.policy.reductions import Use, uses_of
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Operator
from evaluator.core.readings.column import Reading
from evaluator.core.readings.merged import Merged
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.store import Store
from tests.examples import examples
from wire.codec import Delta

STALE = 30.0
NOW = 1000.0
NODES = ("node-a", "node-b", "node-c")
ALL_OF, STRICT = {"logicalOperator": "allOf"}, {"for": "5s", "whenMissing": "violate"}
KEY = PolicyKey("ns", "demo")


@pytest.fixture
def store():
    return Store(stale_after=STALE, started=0.0)


@pytest.fixture
def decided(store):
    """decide() on the fixture's store, after subscribing to the policies' metrics."""

    def run(*policies, nodes=NODES, now=NOW, before=None):
        store.subscribe({metric for policy in policies for metric in policy.metrics})
        return decide(policies, nodes, store, now=now, before=before)

    return run


def report(store, readings, at=NOW):
    """node → metric → value, as full reports."""
    for node, values in readings.items():
        store.report(node, Delta(values, store.metrics - values.keys()), at)


@pytest.fixture
def demo(parsed, rule):
    return parsed(
        dontschedule=[rule("health Equals 1"), rule("health Equals 2")],
        scheduleonmetric=[rule("health LessThan 0")],
        deschedule=[rule("health Equals 2")],
        labeling=[rule("health GreaterThan 0", "ill=yes")],
    )


def test_whole_decision_is_as_expected(store, decided, demo):
    store.subscribe(["health"])
    report(store, {"node-a": {"health": 0.0}, "node-b": {"health": 1.0}, "node-c": {"health": 2.0}})
    found = decided(demo)
    decision = found.policies[KEY]
    assert decision.dontschedule == {
        "node-b": "violating demo: health Equals 1",
        "node-c": "violating demo: health Equals 2",
    }
    assert decision.deschedule == {"node-c": "violating demo: health Equals 2"}
    assert decision.ranking.scores(NODES) == [("node-a", 10), ("node-b", 9), ("node-c", 8)]
    ill = {"telemetry.aware.scheduling.demo/ill": "yes"}
    assert found.labels == {"node-b": ill, "node-c": {"demo": "violating", **ill}}
    assert (decision.problems, decision.missing, decision.unreported) == ((), {}, frozenset())
    assert found.valid_until == NOW + STALE
    assert decision.violations == {
        StrategyName.DONTSCHEDULE: decision.dontschedule,
        StrategyName.DESCHEDULE: decision.deschedule,
    }


def test_nothing_is_decided_about_unknown_nodes(store, decided, demo):
    store.subscribe(["health"])
    report(store, {"elsewhere": {"health": 2.0}})
    found = decided(demo, nodes=["node-a"])
    assert found.policies[KEY].deschedule == {}
    assert found.labels == {}


def test_decision_without_policies_or_nodes_is_empty(decided, demo):
    assert decided().policies == {}
    assert decided(demo, nodes=[]).policies[KEY].missing == {}


def test_stale_reading_counts_as_missing_and_violates_nothing(store, decided, demo):
    store.subscribe(["health"])
    report(store, {"node-a": {"health": 0.0}, "node-b": {"health": 2.0}, "node-c": {"health": 0.0}})
    later = NOW + STALE + 1
    report(store, {"node-a": {"health": 0.0}, "node-c": {"health": 0.0}}, later)
    found = decided(demo, now=later)
    assert found.policies[KEY].deschedule == {}
    assert found.policies[KEY].missing == {"health": ("node-b",)}
    assert found.labels == {}


def test_several_samples_match_no_rule_and_the_problem_names_metric_and_count(store, decided, demo):
    store.subscribe(["health"])
    store.report("node-a", Delta(several={"health": 2}), NOW)
    store.report("node-b", Delta(several={"health": 7}), NOW)
    store.report("node-c", Delta({"health": 0.0}), NOW)
    decision = decided(demo).policies[KEY]
    assert decision.dontschedule == {}
    uses = (  # in the order of the strategies' names
        *(Use(Operator.EQUALS, target) for target in (2.0, 1.0, 2.0)),
        Use(Operator.GREATER_THAN),
        Use(Operator.LESS_THAN, ranks=True),
    )
    assert decision.problems == (
        "metric health has no single value on 2 of 3 nodes: 7 series on node-b; "
        f"it counts as missing there: {aggregation_hint('health', '', uses)}",
    )


def test_label_with_two_values_is_omitted_on_that_node_and_reported(store, decided, parsed, rule):
    policy = parsed(
        labeling=[rule("cpu GreaterThan 80", "tier=busy"), rule("mem LessThan 20", "tier=full")]
    )
    store.subscribe(["cpu", "mem"])
    readings = {
        "node-a": {"cpu": 90.0, "mem": 50.0},
        "node-b": {"cpu": 90.0, "mem": 10.0},
        "node-c": {"cpu": 10.0, "mem": 10.0},
    }
    report(store, readings)
    found = decided(policy)
    tier = "telemetry.aware.scheduling.demo/tier"
    assert found.labels == {"node-a": {tier: "busy"}, "node-c": {tier: "full"}}
    subject = f"labeling: label {tier}: violated rules with different operators name different values (busy, full)"
    assert found.policies[KEY].problems == (
        f"{subject} on 1 of 3 nodes, such as node-b: not set there",
    )
    assert found.policies[KEY].stable_problems == (f"{subject} on the same node: not set there",)
    report(store, {**readings, "node-b": {"cpu": 10.0, "mem": 10.0}}, NOW + 1)
    mended = decided(policy, now=NOW + 1, before=found)
    assert (mended.policies[KEY].problems, mended.policies[KEY].stable_problems) == ((), ())
    assert mended.labels["node-b"] == {tier: "full"}


def test_nan_counts_as_missing(store, decided, demo):
    store.subscribe(["health"])
    report(store, {key: {"health": math.nan} for key in NODES})
    decision = decided(demo).policies[KEY]
    assert decision.missing == {"health": NODES}
    assert decision.ranking.scores(NODES) == []


def test_policies_of_one_name_label_the_union_of_their_violations(store, decided, parsed, rule):
    one = parsed("demo", "ns-a", deschedule=[rule("cpu GreaterThan 5")])
    two = parsed("demo", "ns-b", deschedule=[rule("mem GreaterThan 5")])
    store.subscribe(["cpu", "mem"])
    report(
        store,
        {
            "node-a": {"cpu": 9.0, "mem": 0.0},
            "node-b": {"cpu": 9.0, "mem": 9.0},
            "node-c": {"cpu": 0.0, "mem": 9.0},
        },
    )
    found = decided(one, two)
    assert found.labels == {key: {"demo": "violating"} for key in NODES}
    assert decided(one).labels == {key: {"demo": "violating"} for key in NODES[:2]}
    assert not any(decision.problems for decision in found.policies.values())


def test_first_namespace_wins_between_policies_of_one_name(store, decided, parsed, rule):
    a, b, c = (
        parsed("demo", namespace, labeling=[rule(f"{metric} GreaterThan 5", f"card={namespace}")])
        for namespace, metric in (("ns-a", "m0"), ("ns-b", "m1"), ("ns-c", "m2"))
    )
    key = "telemetry.aware.scheduling.demo/card"
    store.subscribe(["m0", "m1", "m2"])
    report(
        store,
        {"node-a": {"m0": 9.0, "m1": 9.0, "m2": 0.0}, "node-b": {"m0": 0.0, "m1": 9.0, "m2": 9.0}},
    )
    found = decided(c, b, a)
    assert found.labels == {"node-a": {key: "ns-a"}, "node-b": {key: "ns-b"}}
    assert found.policies[a.key].problems == ()
    # Each conflict names the policy that won.
    assert found.policies[b.key].problems == (
        f"label {key}: policy ns-a/demo sets another value, and it wins",
    )
    assert found.policies[c.key].problems == (
        f"label {key}: policy ns-b/demo sets another value, and it wins",
    )


def test_invalid_policy_affects_no_other(store, decided, parsed, rule, demo):
    bad = parsed(
        "bad",
        dontschedule=[{"operator": "?"}, rule("health Equals 1")],
        deschedule={"rules": [rule("health Equals 1"), {}], "logicalOperator": "allOf"},
        nonsense=[],
    )
    store.subscribe(["health"])
    report(store, {key: {"health": 1.0} for key in NODES})
    found = decided(bad, demo)
    assert set(found.policies[KEY].dontschedule) == set(NODES)
    assert set(found.policies[bad.key].dontschedule) == set(NODES)
    assert found.policies[bad.key].deschedule == {}
    assert len(bad.problems) == 3
    assert set(bad.problems) < set(found.policies[bad.key].problems)


def test_silent_nodes_are_pending_at_startup(decided, demo, store):
    store.subscribe(["health"])
    report(store, {"node-a": {"health": 2.0}}, at=1.0)
    found = decided(demo, now=1.0)
    assert found.policies[KEY].unreported == {"node-b", "node-c"}
    assert found.valid_until == STALE
    assert decided(demo, now=STALE + 0.001).policies[KEY].unreported == frozenset()


def test_labels_stay_while_readings_of_an_edited_policy_are_pending(store, decided, parsed, rule):
    old = parsed(deschedule=[rule("health Equals 2")])
    new = parsed(deschedule=[rule("wellness Equals 2")], generation=2)
    store.subscribe(["health"])
    report(store, {key: {"health": 2.0} for key in NODES})
    first = decided(old)
    assert set(first.labels) == set(NODES)

    second = decided(new, before=first)
    assert second.policies[KEY].unreported == set(NODES)
    assert second.labels == first.labels
    assert second.policies[KEY].deschedule == {}

    report(store, {"node-a": {"wellness": 2.0}, "node-b": {"wellness": 0.0}})
    third = decided(new, before=second)
    assert third.policies[KEY].unreported == {"node-c"}
    assert third.labels == {key: {"demo": "violating"} for key in ["node-a", "node-c"]}

    report(store, {"node-c": {}})
    assert decided(new, before=third).labels == {"node-a": {"demo": "violating"}}


def test_deleted_policy_keeps_no_labels(store, decided, demo):
    store.subscribe(["health"])
    report(store, {key: {"health": 2.0} for key in NODES})
    first = decided(demo)
    assert decided(before=first).labels == {}


def test_report_between_two_steps_belongs_to_the_next_decision(store, decided, parsed, rule):
    """Other tasks run during a decision; its result is of one moment for every policy."""
    policies = [parsed(f"p{number}", deschedule=[rule("m Equals 1")]) for number in range(5)]
    store.subscribe(["m"])
    report(store, {node: {"m": 0.0} for node in NODES})
    steps, taken = deciding(policies, NODES, store, now=NOW), 0
    try:
        while True:
            next(steps)
            taken += 1
            report(store, {"node-a": {"m": 1.0}})
    except StopIteration as done:
        decisions = done.value
    assert taken > len(policies)
    assert decisions.labels == {}
    assert decided(*policies).labels.keys() == {"node-a"}


FIRST = "refused every node at its first evaluation"


def seen(decisions):
    """All results of decisions as plain values: of each policy, and the labels of nodes."""
    nodes = decisions.table.nodes
    return (
        [seen_of(decision, nodes) for decision in decisions.policies.values()],
        {node: dict(labels) for node, labels in decisions.labels.items()},
    )


def seen_of(decision, nodes):
    """All results of the decision for one policy."""
    ranking = decision.ranking
    return {
        "policy": decision.policy.key,
        "problems": decision.problems,
        "not found": decision.not_found,
        "pending": decision.unreported,
        "missing": decision.missing,
        "violations": {name: dict(reasons) for name, reasons in decision.violations.items()},
        "scores": ranking and sorted(ranking.scores(NODES)),
        "labels": {node: dict(labels) for node, labels in decision.labels.items()},
        "rules": [
            (name, str(rule), *seen_of_rule(state, number, nodes))
            for name, state in decision.states.items()
            for number, rule in enumerate(state.rules)
        ],
    }


def seen_of_rule(state, number, nodes):
    """The nodes that match a rule, those without a reading, and the begin of each running timer."""
    found, timers = state.found, state.timers.get(number)
    running = timers.pending | timers.clearing if timers else nodes.none
    return (
        {*itertools.compress(nodes, found.per_rule[:, number])},
        {*itertools.compress(nodes, found.missing[:, number])},
        {
            node: float(timers.since[nodes.position[node]])
            for node in itertools.compress(nodes, running)
        },
    )


metrics = st.sampled_from(["cpu", "mem"])
reading = st.one_of(st.none(), st.integers(0, 3).map(float), st.just("several"), st.just(math.nan))


@st.composite
def worlds(draw):
    """Rules for a few policies (two of one name), and each node's readings."""
    operators = st.sampled_from(["Equals", "LessThan", "GreaterThan"])
    texts = st.builds(lambda m, o, t: f"{m} {o} {t}", metrics, operators, st.integers(0, 3))
    strategies = st.fixed_dictionaries(
        {},
        optional={
            "dontschedule": st.lists(texts, max_size=3),
            "scheduleonmetric": st.lists(texts, max_size=2),
            "deschedule": st.lists(texts, max_size=3),
            "labeling": st.lists(texts.map(lambda text: (text, f"card={text[-1]}")), max_size=3),
        },
    )
    policies = {
        key: draw(strategies) for key in [("ns-a", "demo"), ("ns-b", "demo"), ("ns-a", "other")]
    }
    readings = {
        node: draw(st.fixed_dictionaries({"cpu": reading, "mem": reading})) for node in NODES
    }
    return policies, readings


def spoken(readings, subscribed):
    """A full report of a node's values for the subscribed metrics."""
    asked = {metric: value for metric, value in readings.items() if metric in subscribed}
    several = {metric: 2 for metric, value in asked.items() if value == "several"}
    values = {m: v for m, v in asked.items() if v is not None and v != "several"}
    return Delta(values, set(subscribed) - values.keys() - several.keys(), several)


@given(worlds(), st.data())
def test_order_of_arrival_does_not_change_the_decision(tas, rule, world, data):
    """Decide after every single arrival, as the evaluator does, with agents that report again after a new subscription."""
    bodies, readings = world
    policies = [
        parse_policy(
            tas(
                name,
                namespace,
                **{
                    strategy: [
                        rule(text) if isinstance(text, str) else rule(*text) for text in texts
                    ]
                    for strategy, texts in strategies.items()
                },
            )
        )
        for (namespace, name), strategies in bodies.items()
    ]
    arrivals = [
        *(("policy", policy) for policy in policies),
        *(("node", node) for node in NODES),
        *(("agent", node) for node in NODES),
    ]

    def run(order):
        store, decisions = Store(stale_after=STALE, started=0.0), Decisions()
        known, nodes, agents = [], [], []
        for kind, what in order:
            {"policy": known, "node": nodes, "agent": agents}[kind].append(what)
            store.subscribe({metric for policy in known for metric in policy.metrics})
            decisions = decide(known, nodes, store, now=NOW, before=decisions)
            for node in agents if kind == "policy" else [what] if kind == "agent" else []:
                store.report(node, spoken(readings[node], store.metrics), NOW)
                decisions = decide(known, nodes, store, now=NOW, before=decisions)
        return decisions

    order = data.draw(st.permutations(arrivals))
    assert of_any_order(*seen(run(order))) == of_any_order(*seen(run(arrivals)))


def of_any_order(policies, labels):
    """Results without the problem that tells what a policy's first evaluation found, before all had arrived."""
    return [
        {**one, "problems": [problem for problem in one["problems"] if FIRST not in problem]}
        for one in policies
    ], labels


@given(worlds())
def test_repeated_decision_changes_nothing(tas, rule, world):
    bodies, readings = world
    policies = [
        parse_policy(
            tas(name, namespace, deschedule=[rule(t) for t in strategies.get("deschedule", ())])
        )
        for (namespace, name), strategies in bodies.items()
    ]
    store = Store(stale_after=STALE, started=0.0)
    store.subscribe(["cpu", "mem"])
    for node in NODES:
        store.report(node, spoken(readings[node], store.metrics), NOW)
    once = decide(policies, NODES, store, now=NOW)
    again = decide(policies, NODES, store, now=NOW, before=once)
    assert seen(again) == seen(once)


def told(decisions):
    """All results of decisions, including the state for the next ones."""
    return (
        seen(decisions),
        decisions.valid_until,
        [
            (key, name, state.found.violated.tolist(), state.settled.tolist(), state.due)
            for key, decision in decisions.policies.items()
            for name, state in decision.states.items()
        ],
    )


def strange(decisions):
    """The same decisions over a copied list of the same nodes, so that nothing can be reused."""
    table = MetricTable(NodeIndex(decisions.table.nodes), decisions.table.columns)
    return replace(decisions, table=table)


class RandomWorld:
    """Rules, reports, a held node and departed pods of which little changes from step to step."""

    def __init__(self, seed, tas, rule):
        self.rng, self.tas, self.rule = random.Random(seed), tas, rule
        self.policies = []
        self.held, self.departed = None, 0.0
        self.levels = dict.fromkeys(itertools.product(NODES, ("cpu", "mem")), 2)
        self.poor = self.rng.random() < 0.3

    def step(self):
        """Change a little; return what some nodes report, and the seconds before and after that."""
        rng, first = self.rng, not self.policies
        if first or rng.random() < 0.1:
            self.policies = [self._policy(*key) for key in (("a", "p"), ("b", "p"), ("a", "q"))]
        self.policies = [policy.with_status({"at": rng.random()}) for policy in self.policies]
        self.held = rng.choice(NODES) if rng.random() < 0.15 else None
        self.departed = float(rng.random() < 0.15)
        nodes = NODES[rng.randrange(2) :] if first else rng.sample(NODES, rng.choice((0, 1, 1, 2)))
        reports = {
            node: {metric: self._reading(node, metric) for metric in ("cpu", "mem")}
            for node in nodes
        }
        return reports, rng.choice((0.0, 1.0, 3.0, 3.0, 20.0)), 35.0 * (rng.random() < 0.05)

    def _reading(self, node, metric):
        rng = self.rng
        if rng.random() < (0.8 if self.poor else 0.05):
            return rng.choice((None, "several", math.nan))
        if rng.random() < 0.3:
            self.levels[node, metric] = rng.randrange(4)
        return self.levels[node, metric] + rng.random()

    def _policy(self, namespace, name):
        rng, strategies = self.rng, {}
        for strategy in ("dontschedule", "scheduleonmetric", "deschedule", "labeling"):
            rules = []
            for _ in range(rng.choice((0, 1, 1, 2, 3))):
                operator = rng.choice(("Equals", "LessThan", "GreaterThan"))
                text = f"{rng.choice(('cpu', 'mem'))} {operator} {rng.randrange(4)}"
                label = [f"card={rng.randrange(2)}"] if strategy == "labeling" else []
                rules.append(self.rule(text, *label))
            if rules:
                more = rng.choice(({}, {}, {"for": "5s"}, {"clearAfter": "5s"}, ALL_OF, STRICT))
                strategies[strategy] = {"rules": rules, **more}
        return parse_policy(self.tas(name, namespace, **strategies))

    def holds(self, _policy, nodes, _now):
        return None if self.held is None else np.array([node == self.held for node in nodes])

    def without_departed(self, _policy, table):
        if not self.departed:
            return table
        less = np.full(len(table.nodes), -self.departed)
        return table.with_columns({name: table.column(name).moved(less) for name in table.columns})


@settings(max_examples=examples(40))
@given(st.integers(0, 1 << 32))
def test_reused_results_equal_recomputed_ones(tas, rule, seed):
    """Through edits of rules and readings, and with nodes that are held in violation and pods that have left."""
    world, sharing, anew, now = RandomWorld(seed, tas, rule), Decisions(), Decisions(), NOW
    store = Store(stale_after=STALE, started=0.0)
    store.subscribe(["cpu", "mem"])
    for _ in range(10):
        reports, earlier, later = world.step()
        now += earlier
        for node, readings in reports.items():
            store.report(node, spoken(readings, store.metrics), now)
        now += later
        more = {"holds": world.holds, "without_departed": world.without_departed}
        sharing = decide(world.policies, NODES, store, now=now, before=sharing, **more)
        anew = decide(world.policies, NODES, store, now=now, before=strange(anew), **more)
        assert told(sharing) == told(anew)


def test_first_report_that_is_already_stale_ends_what_its_absence_began(
    store, decided, parsed, rule
):
    policy = parsed(deschedule={"rules": [rule("health Equals 1")], **STRICT})
    store.subscribe(["health"])
    begun = decided(policy)
    absent = decided(policy, now=NOW + 5.0, before=begun)
    assert [*absent.policies[KEY].deschedule] == [*NODES]
    assert absent.policies[KEY].lasts
    store.report("node-a", Delta({}, ["health"]), NOW + 6.0)
    after = decided(policy, now=NOW + 7.0 + STALE, before=absent)
    assert [*after.policies[KEY].deschedule] == ["node-b", "node-c"]


def test_hint_for_several_series_names_the_source_that_has_them_now(parsed, rule):
    store = Store(stale_after=STALE, started=0.0)
    polled = PolledReadings("prometheus", stale_after=STALE, started=0.0)
    sources = Merged({"agents": store, "prometheus": polled})
    sources.subscribe(["health"])
    sources.prune(NODES, NOW)
    policy = parsed(deschedule=[rule("health Equals 1")])
    several = Delta({}, [], {"health": 2})
    for node in NODES:
        store.report(node, several, NOW)
    first = decide([policy], NODES, sources, now=NOW)
    later = NOW + STALE + 1.0
    polled.answer("health", dict.fromkeys(NODES, Reading(2, math.nan, later)), later)
    second = decide([policy], NODES, sources, now=later, before=first)
    for decisions, source in ((first, "agents"), (second, "prometheus")):
        [problem] = decisions.policies[KEY].problems
        assert problem.endswith(aggregation_hint("health", source, uses_of(policy, "health")))


def test_unchanged_results_are_the_same_objects(store, decided, demo, parsed, rule):
    """Readers rely on identity to skip unchanged results."""
    other = parsed(
        "other", dontschedule=[rule("cpu GreaterThan 5")], deschedule=[rule("cpu Equals 9")]
    )
    store.subscribe(["cpu", "health"])
    report(store, {node: {"cpu": 9.0, "health": 2.0} for node in NODES})
    first = decided(demo, other)
    report(store, {"node-a": {"cpu": 7.0, "health": 2.0}})
    second = decided(demo, other, before=first)
    before, after = first.policies, second.policies
    assert second.table.nodes is first.table.nodes
    assert after[KEY].dontschedule is before[KEY].dontschedule
    assert after[KEY].labels is before[KEY].labels
    assert after[other.key].dontschedule is before[other.key].dontschedule
    assert after[other.key].deschedule is not before[other.key].deschedule
    assert list(second.labels.changed_since(first.labels)) == ["node-a"]
    third = decided(demo, other, before=second)
    assert third.labels is second.labels
    assert third.policies[KEY].same_as(after[KEY])
    assert third.policies[other.key] is after[other.key]
    written = demo.with_status({"compliance": "Violated"})
    fourth = decided(written, other, before=third).policies
    assert fourth[KEY].same_as(third.policies[KEY])
    assert fourth[KEY].policy is written


def naive(policy, readings):
    """Reasons by node of a policy without durations, computed node by node."""
    compare = {"Equals": operator.eq, "LessThan": operator.lt, "GreaterThan": operator.gt}
    found = {}
    for name in (StrategyName.DONTSCHEDULE, StrategyName.DESCHEDULE):
        strategy = policy.strategies.get(name)
        found[name] = {}
        for node, own in readings.items() if strategy else ():
            broken = [
                text
                for r in strategy.rules
                if isinstance(own.get(r.metric), float)
                and compare[r.operator](own[r.metric], r.target)
                for text in [f"{r.metric} {r.operator} {r.target:g}"]
            ]
            if broken and (not strategy.all_of or len(broken) == len(strategy.rules)):
                said = " and ".join(broken) if strategy.all_of else broken[0]
                found[name][node] = f"violating {policy.key.name}: {said}"
    return found


@given(worlds(), st.booleans())
def test_columnar_decision_equals_node_by_node_decision(tas, rule, world, all_of):
    bodies, readings = world
    logical = {"logicalOperator": "allOf" if all_of else "anyOf"}
    policies = [
        parse_policy(
            tas(
                name,
                namespace,
                **{
                    strategy: {"rules": [rule(t) for t in strategies.get(strategy, ())], **logical}
                    for strategy in ("dontschedule", "deschedule")
                },
            )
        )
        for (namespace, name), strategies in bodies.items()
    ]
    store = Store(stale_after=STALE, started=0.0)
    store.subscribe(["cpu", "mem"])
    for node in NODES:
        store.report(node, spoken(readings[node], store.metrics), NOW)
    decisions = decide(policies, NODES, store, now=NOW)
    for policy in policies:
        assert decisions.policies[policy.key].violations == naive(policy, readings)
    violators = {n for p in policies for n in naive(p, readings)[StrategyName.DESCHEDULE]}
    assert decisions.labels.keys() == violators


def test_nodes_to_hold_are_found_once_for_a_policy_that_can_be_violated(store, parsed, rule, demo):
    ranking = parsed("ranking", scheduleonmetric=[rule("health LessThan 0")])
    store.subscribe(["health"])
    report(store, {node: {"health": 2.0} for node in NODES})
    asked = []

    def holds(policy, nodes, _now):
        asked.append(policy.key)
        return nodes.none | True

    first = decide([demo, ranking], NODES, store, now=NOW, holds=holds)
    report(store, {node: {"health": 0.0} for node in NODES})
    found = decide([demo, ranking], NODES, store, now=NOW, before=first, holds=holds)
    assert asked == [KEY, KEY]
    assert {*found.policies[KEY].dontschedule} == {*found.policies[KEY].deschedule} == {*NODES}
