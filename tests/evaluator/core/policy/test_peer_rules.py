"""Rules on peer metrics: parsing, durations, the limit on accused nodes, and what sources are asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import MIN_PEERS, PEERS, parse
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.readings.peer_readings import PeerColumns
from evaluator.core.readings.peers import LabelGroups
from evaluator.core.readings.store import Store
from wire.codec import Delta

KEY = PolicyKey("ns", "slow")
STALE = 30.0
SLOW = {"metricname": "latency:peer_deviation", "operator": "GreaterThan", "target": 5}


def policy(tas, *rules, annotations=(), **options):
    obj = tas("slow", dontschedule={"rules": [*rules] or [SLOW], **options})
    obj["metadata"]["annotations"] = dict(annotations)
    return parse(obj)


class World:
    """Nodes that report `latency`, and decisions about them."""

    def __init__(self, policy, labels=None):
        self.policy = policy
        self.store = Store(stale_after=STALE, started=-100.0)
        self.store.subscribe(policy.measured_metrics)
        self.peers = PeerColumns(LabelGroups(labels))
        self.nodes, self.before = [], None

    def report(self, readings, now):
        for node, value in readings.items():
            self.store.report(node, Delta({"latency": value}, set()), now)
        self.nodes = sorted({*self.nodes, *readings})

    def decide(self, now):
        self.before = decide(
            [self.policy], self.nodes, self.store, now=now, before=self.before, peers=self.peers
        )
        return self.before.policies[KEY]

    def held_back(self):
        state = self.before.policies[KEY].states[StrategyName.DONTSCHEDULE]
        masks = [one.mask for one in state.held_back.values()]
        return self.before.table.nodes.names_at(np.logical_or.reduce(masks)) if masks else []


def even(count, value=10.0):
    return {f"node-{number:03d}": value + number % 5 / 10 for number in range(count)}


def test_node_slower_than_its_peers_violates_and_the_reason_is_constant(tas):
    world = World(policy(tas))
    world.report(even(20) | {"node-004": 20.0}, 0)
    text = "violating slow: latency:peer_deviation GreaterThan 5"
    assert world.decide(0).dontschedule == {"node-004": text}
    world.report({"node-004": 25.0}, 1)
    assert world.decide(1).dontschedule == {"node-004": text}


def test_sources_are_asked_for_the_base_metric_once(tas):
    ratio = {**SLOW, "metricname": "latency:peer_ratio", "target": 2}
    found = policy(tas, SLOW, ratio, {**SLOW, "metricname": "latency"})
    assert found.measured_metrics == {"latency"}
    assert found.metrics == {"latency", "latency:peer_deviation", "latency:peer_ratio"}
    assert not found.problems


def test_for_and_clear_after_apply(tas):
    world = World(policy(tas, **{"for": "10s", "clearAfter": "20s"}))
    world.report(even(20) | {"node-004": 20.0}, 0)
    assert not world.decide(0).dontschedule
    assert world.decide(10).dontschedule.keys() == {"node-004"}
    world.report(even(20), 11)
    assert world.decide(11).dontschedule.keys() == {"node-004"}
    assert not world.decide(31).dontschedule


def test_stale_and_missing_readings_are_no_peers_and_violate_nothing(tas):
    world = World(policy(tas))
    world.report({f"old-{number}": 1000.0 for number in range(20)}, 0)
    world.report(even(9) | {"node-004": 20.0}, STALE + 1)
    found = world.decide(STALE + 1)
    assert found.dontschedule.keys() == {"node-004"}
    assert found.missing.count("latency:peer_deviation") == 20


@pytest.mark.parametrize("count", range(1, 12))
def test_group_below_the_least_size_accuses_nobody(tas, count):
    world = World(policy(tas))
    world.report(even(count) | {"node-000": 1000.0}, 0)
    found = world.decide(0)
    assert bool(found.dontschedule) is (count >= 8)
    assert found.missing.count("latency:peer_deviation") == (0 if count >= 8 else count)
    assert not found.problems


def test_peers_are_nodes_of_one_instance_type_unless_the_policy_names_another_label(tas):
    labels = {
        f"node-{number:03d}": {
            "node.kubernetes.io/instance-type": f"type-{number % 2}",
            "rack": f"rack-{number // 10}",
        }
        for number in range(20)
    }
    # All nodes of one type are slow: compared with their own type, none is.
    readings = {node: 10.0 + number % 2 * 50 for number, node in enumerate(sorted(labels))}
    readings["node-002"] = 30.0
    for annotations, accused in (
        ({}, {"node-002"}),
        ({PEERS: "*"}, set()),
        ({PEERS: "rack", MIN_PEERS: "11"}, set()),
    ):
        world = World(policy(tas, annotations=annotations), labels.__getitem__)
        world.report(readings, 0)
        assert world.decide(0).dontschedule.keys() == accused, annotations


def test_rules_with_different_groups_have_columns_of_their_own(tas):
    usual, racks = policy(tas), policy(tas, annotations={PEERS: "rack", MIN_PEERS: "5"})
    assert usual.metrics == {"latency:peer_deviation"}
    assert racks.metrics == {"latency:peer_deviation{by=rack,min=5}"}


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({PEERS: "no label!"}, "annotation plimsoll.io/peers: 'no label!' is not a label name"),
        ({PEERS: ""}, "annotation plimsoll.io/peers:"),
        ({MIN_PEERS: "2"}, "annotation plimsoll.io/min-peers: '2' is not a number of nodes"),
        ({MIN_PEERS: "²"}, "annotation plimsoll.io/min-peers:"),
        ({MIN_PEERS: "9" * 5000}, "annotation plimsoll.io/min-peers:"),
    ],
)
def test_invalid_annotation_leaves_peer_rules_out(tas, annotations, problem):
    found = policy(tas, SLOW, {**SLOW, "metricname": "latency"}, annotations=annotations)
    assert [rule.metric for rule in found.strategies[StrategyName.DONTSCHEDULE].rules] == [
        "latency"
    ]
    (text,) = found.problems
    assert text.startswith(f"dontschedule: rule 1: {problem}")
    assert text.endswith("left out")


@pytest.mark.parametrize(
    "name", ["latency:", "latency:peer", ":peer_ratio", "a:peer_ratio{by=x,min=1}", "a:b"]
)
def test_other_suffixes_are_no_metric_names(tas, name):
    (problem,) = policy(tas, {**SLOW, "metricname": name}).problems
    assert ":peer_deviation or :peer_ratio" in problem


def test_missing_readings_do_not_violate_a_peer_rule(tas):
    found = policy(tas, whenMissing="violate")
    assert "whenMissing: violate has no effect" in found.problems[0]
    world = World(found)
    world.report(even(5), 0)
    assert not world.decide(0).dontschedule


def test_change_of_half_a_group_is_no_fault_of_every_node(tas):
    world = World(policy(tas))
    readings = even(100)
    readings |= {node: value * 3 for node, value in [*readings.items()][:40]}
    readings["node-007"] = 90.0
    world.report(readings, 0)
    found = world.decide(0)
    assert len(found.dontschedule) == 10
    assert "node-007" in found.dontschedule
    assert len(world.held_back()) == 30
    assert not {*world.held_back()} & found.dontschedule.keys()


def test_unchanged_peers_are_compared_once(tas):
    world = World(policy(tas))
    world.report(even(40) | {f"node-{number:03d}": 90.0 + number for number in range(9)}, 0)
    (rule,) = world.policy.strategies[StrategyName.DONTSCHEDULE].rules
    found, held_back = world.decide(0).dontschedule, world.held_back()
    first = world.before.table.column(rule.metric).matches(rule)
    assert (len(found), len(held_back)) == (4, 5)
    world.report({"node-020": 10.0}, 1)  # as before
    assert world.decide(1).dontschedule == found
    assert world.held_back() == held_back
    assert world.before.table.column(rule.metric).matches(rule) is first
    world.report({"node-008": 10.0}, 2)
    assert world.decide(2).dontschedule.keys() == found.keys() ^ {"node-008", "node-004"}


def test_decision_is_kept_while_the_same_nodes_differ_from_their_peers(tas):
    world = World(policy(tas))
    world.report(even(40) | {"node-004": 90.0}, 0)
    world.decide(0)
    first = world.decide(0)
    world.report(even(40, 11.0) | {"node-004": 80.0}, 1)  # all readings, and their median
    assert world.decide(1) is first
    world.report({"node-005": 80.0}, 2)
    assert world.decide(2).dontschedule.keys() == {"node-004", "node-005"}


def test_comparisons_with_former_targets_are_not_kept_forever(tas):
    world = World(policy(tas))
    world.report(even(40), 0)
    for target in range(300):
        world.policy = policy(tas, SLOW | {"target": target})
        world.decide(0)
    (rule,) = world.policy.strategies[StrategyName.DONTSCHEDULE].rules
    assert len(world.before.table.column(rule.metric).compared) <= 101


def test_limit_holds_while_clear_after_runs(tas):
    world = World(policy(tas, clearAfter="1h"))
    readings = even(40)
    for begin in range(0, 12, 4):  # one after the other, four nodes are slow
        nodes = {f"node-{number:03d}": 50.0 for number in range(begin, begin + 4)}
        world.report(readings | nodes, begin)
        assert world.decide(begin).dontschedule.keys() == nodes.keys()
    assert len(world.held_back()) == 8


@given(st.permutations(range(24)), st.data())
def test_order_of_nodes_and_reports_changes_nothing(order, data):
    tas = lambda name, **strategies: {  # noqa: E731
        "metadata": {"name": name, "namespace": "ns", "uid": "u"},
        "spec": {"strategies": strategies},
    }
    values = data.draw(st.lists(st.sampled_from([9.0, 10.0, 11.0, 90.0]), min_size=24, max_size=24))
    readings = {f"node-{number:03d}": value for number, value in enumerate(values)}
    results = []
    for numbers in (range(24), order):
        world = World(policy(tas))
        nodes = [f"node-{number:03d}" for number in numbers]
        world.report({node: readings[node] for node in nodes}, 0)
        world.nodes = nodes
        found = world.decide(0)
        results.append((found.dontschedule, world.held_back(), {*found.missing}))
    assert results[0] == results[1]
