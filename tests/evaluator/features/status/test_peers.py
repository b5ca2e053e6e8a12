"""The condition of a policy whose rules on peers hold nodes back."""

from evaluator.core.policy.decide import decide
from evaluator.core.readings.peer_readings import PeerColumns
from evaluator.core.readings.peers import LabelGroups
from evaluator.core.readings.store import Store
from evaluator.features.status.conditions import peers_held_back
from wire.codec import Delta

TYPE = "node.kubernetes.io/instance-type"


def decided(policy, values):
    """The decision on nodes of one type: node → latency."""
    store = Store(stale_after=30.0, started=-100.0)
    store.subscribe(["latency"])
    for node, value in values.items():
        store.report(node, Delta({"latency": value}), 0.0)
    peers = PeerColumns(LabelGroups(lambda _node: {TYPE: "big"}))
    return decide([policy], values, store, now=0.0, peers=peers).policies[policy.key]


def test_held_back_nodes_are_named(parsed, rule):
    values = {f"node-{number:02}": 10.0 + number % 3 for number in range(20)}
    values |= {f"node-{number:02}": 90.0 + number for number in range(6)}
    policy = parsed(dontschedule=[rule("latency:peer_deviation GreaterThan 5")])
    part = peers_held_back(decided(policy, values))
    (condition,) = part.conditions
    assert (condition.type, condition.status, condition.reason) == (
        "PeersHeldBack",
        "True",
        "TooManyDiffer",
    )
    assert condition.message.startswith("4 of 20 nodes (node-00, node-01, node-02, node-03) differ")
    assert [*part.episodes.values()] == [True]


def test_policy_without_rules_on_peers_says_nothing_about_them(parsed, rule):
    policy = parsed(dontschedule=[rule("latency GreaterThan 5")])
    assert peers_held_back(decided(policy, {"node": 1.0})).conditions == ()
