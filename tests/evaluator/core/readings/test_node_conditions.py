"""Conditions of nodes as readings: 1, 0 or missing, with the time at which the reporter wrote them."""

import json

import numpy as np

from evaluator.core.cache.cluster import decode_node
from evaluator.core.model.node import NodeCondition
from evaluator.core.readings.column import NEVER
from evaluator.core.readings.node_conditions import NodeConditions, WithNodeConditions, metric_of
from evaluator.core.readings.store import Store

EPOCH = 1_700_000_000.0
NODES = ("a", "b", "c")
DEADLOCK = "node_condition_KernelDeadlock"


def condition(status, kind="KernelDeadlock", **times):
    return NodeCondition(kind, status, **times)


def conditions(**by_node):
    made = NodeConditions(epoch=EPOCH)
    made.subscribed = frozenset({DEADLOCK})
    for node, status in by_node.items():
        made.changed(node, [condition(status)], EPOCH + 1000)
    return made


def test_true_is_one_and_false_is_zero():
    column = conditions(a="True", b="False").column(DEADLOCK, NODES)
    assert column.values[:2].tolist() == [1.0, 0.0]
    assert column.usable.tolist() == [True, True, False]


def test_absent_and_unknown_conditions_are_missing_and_not_awaited():
    column = conditions(a="Unknown", b="True").column(DEADLOCK, NODES)
    assert column.usable.tolist() == [False, True, False]
    assert not column.unreported.any()


def test_deleted_node_leaves_no_reading():
    made = conditions(a="True")
    made.changed("a", [], EPOCH + 1000)
    assert not made.column(DEADLOCK, NODES).usable.any()


def test_age_is_that_of_the_last_write_of_the_reporter():
    made = NodeConditions(epoch=EPOCH)
    times = {"lastTransitionTime": "2023-11-14T22:13:30Z"}
    heartbeat = {"lastHeartbeatTime": "2023-11-14T22:18:20Z"}
    for node, given in {
        "a": times | heartbeat,
        "b": times,
        "c": {"lastTransitionTime": "yesterday"},
    }.items():
        body = {"type": "KernelDeadlock", "status": "True", **given}
        decoded = decode_node(
            json.dumps({"metadata": {"name": node}, "status": {"conditions": [body]}})
        )
        made.changed(node, decoded.status.conditions, EPOCH + 1000)
    assert made.column(DEADLOCK, NODES).at.tolist() == [300.0, 10.0, NEVER]
    assert made.column(DEADLOCK, NODES).fresh.all()


def test_only_changed_values_of_subscribed_metrics_require_a_decision():
    made = conditions(a="False")
    assert made.changed("a", [condition("True")], EPOCH + 1000)
    assert not made.changed("a", [condition("True", at=EPOCH + 300)], EPOCH + 1000)
    assert not made.changed("a", [condition("True"), condition("True", "Other")], EPOCH + 1000)
    assert made.changed("a", [condition("Unknown")], EPOCH + 1000)


def test_types_with_a_domain_become_metric_names():
    assert metric_of("example.com/NetworkReady") == "node_condition_example_com_NetworkReady"


def test_two_types_of_one_metric_name_have_no_single_value():
    made = NodeConditions(epoch=EPOCH)
    made.changed("a", [condition("True", "x.y/Z"), condition("False", "x/y.Z")], EPOCH + 1000)
    column = made.column("node_condition_x_y_Z", ("a",))
    assert column.samples.tolist() == [2]
    assert not column.usable.any()


def test_columns_of_one_moment_do_not_change_later():
    made = conditions(a="True")
    before = made.column(DEADLOCK, NODES)
    made.changed("a", [condition("False")], EPOCH + 1000)
    assert before.values[0] == 1.0
    assert made.column(DEADLOCK, NODES).values[0] == 0.0


def test_conditions_are_not_requested_from_other_sources():
    store, made = Store(stale_after=30.0, started=0.0), conditions(a="True")
    readings = WithNodeConditions(store, made)
    readings.subscribe({"load1", DEADLOCK})
    assert store.metrics == {"load1"}
    with readings.snapshot(NODES) as moment:
        assert moment.column(DEADLOCK, NODES, 0.0).values[0] == 1.0
        assert np.isnan(moment.column("load1", NODES, 0.0).values).all()
