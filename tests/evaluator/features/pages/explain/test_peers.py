"""Rules on peers on pages: groups, where each node stands, and nodes that are held back."""

import json

from msgspec import to_builtins

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.readings.peer_readings import PeerColumns, PeerReadings
from evaluator.core.readings.peers import LabelGroups
from evaluator.core.readings.store import Store
from evaluator.features.pages.explain.policy import explain, overview
from evaluator.features.pages.explain.states import counts, states_of
from plimsoll.steps import finished
from wire.codec import Delta

TYPE = "node.kubernetes.io/instance-type"


def world(parsed, rule, values, types):
    """Return decisions and the explanation of a policy; node → latency, and node → instance type."""
    policy = parsed(dontschedule=[rule("latency:peer_deviation GreaterThan 5")])
    store, peers = (
        Store(stale_after=30.0, started=-100.0),
        PeerColumns(LabelGroups(lambda node: {TYPE: types[node]})),
    )
    store.subscribe(["latency"])
    for node, value in values.items():
        store.report(node, Delta({"latency": value}), 0.0)
    decisions = decide([policy], values, store, now=0.0, peers=peers)
    with PeerReadings(store, peers).snapshot(decisions.table.nodes) as readings:
        found = finished(explain(decisions, policy.key, readings, now=0.0))
        page = to_builtins(found.head) | {"nodes": to_builtins(dict(found.nodes))}
    return decisions, json.loads(json.dumps(page, allow_nan=False))


def test_group_of_each_node_its_median_and_where_it_stands(parsed, rule):
    values = {f"node-{number:02}": 10.0 + number % 3 for number in range(12)} | {"lone-0": 500.0}
    values["node-05"] = 30.0
    types = dict.fromkeys(values, "big") | {"lone-0": "odd"}
    _, page = world(parsed, rule, values, types)
    (found,) = page["strategies"]["dontschedule"]["rules"]
    assert found["broken"] == ["node-05"]
    big, odd = found["peers"]["groups"]
    assert (big["group"], big["nodes"], big["median"]) == ("big", 12, 11.0)
    assert big["strip"]["runs"] == [[11, 1, "violated"]]  # from low to high
    assert (odd["group"], odd["nodes"], odd["median"]) == ("odd", 1, None)
    assert found["peers"]["by"] == f"nodes with the same {TYPE}"
    assert found["peers"]["withoutPeers"] == 1
    metric = "latency:peer_deviation"
    slow = page["nodes"]["node-05"]["readings"][metric]
    assert slow["peers"]["reading"] == 30.0
    assert slow["value"] == (30.0 - 11.0) / slow["peers"]["scale"]
    lone = page["nodes"]["lone-0"]["readings"][metric]
    assert lone["state"] == "missing: 1 node of its group has a reading, fewer than 8"
    assert lone["peers"]["median"] is None


def test_held_back_nodes_are_named_everywhere(parsed, rule):
    values = {f"node-{number:02}": 10.0 + number % 3 for number in range(20)}
    values |= {f"node-{number:02}": 90.0 + number for number in range(6)}
    decisions, page = world(parsed, rule, values, dict.fromkeys(values, "big"))
    (found,) = page["strategies"]["dontschedule"]["rules"]
    assert (found["broken"], found["heldBack"]) == (
        ["node-04", "node-05"],
        ["node-00", "node-01", "node-02", "node-03"],
    )
    decision = decisions.policies[PolicyKey("ns", "demo")]
    (row,) = overview(decisions.policies, decisions.table)
    assert (row.dontschedule, row.dontschedule_held_back) == (["node-04", "node-05"], 4)
    codes = finished(states_of(decision, decisions.table))
    assert {word: n for word, n in counts(codes).items() if n} == {
        "violated": 2,
        "heldback": 4,
        "clear": 14,
    }


def test_infinite_reading_among_peers_is_shown_as_one(parsed, rule):
    values = {f"node-{number:02}": 10.0 for number in range(12)} | {"node-05": float("inf")}
    _, page = world(parsed, rule, values, dict.fromkeys(values, "big"))
    shown = page["nodes"]["node-05"]["readings"]["latency:peer_deviation"]
    assert shown["peers"]["reading"] == "+Inf"
    _, page = world(parsed, rule, dict.fromkeys(values, float("inf")), dict.fromkeys(values, "big"))
    (group,) = page["strategies"]["dontschedule"]["rules"][0]["peers"]["groups"]
    assert (group["nodes"], group["median"]) == (13 - 1, "+Inf")
