"""After a restart: records from the conditions of policies, nodes and pods, before all that this process saw."""

import dataclasses

from prometheus_client import CollectorRegistry

from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.pod import Pod, PodCondition, PodMeta, PodSpec, PodStatus
from evaluator.core.page_fields import Fields, WrittenFields
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.core.signals import Decided
from evaluator.features.history.history import History
from evaluator.features.history.recorder import HistoryMetrics, Recorder, restored
from evaluator.features.history.series import Series
from wire.codec import Delta

SINCE = "2023-11-14T22:00:0{}Z"
NOW = 1_700_000_000.0


def pod(name, status, *, policy="demo", node="", message=""):
    condition = PodCondition("PodScheduled", status, "Unschedulable", message, SINCE.format(3))
    meta = PodMeta(name=name, namespace="ns", labels={"telemetry-policy": policy})
    spec = PodSpec(node_name=node, requests_extender=True)
    return Pod(meta, spec, PodStatus("Pending", [condition]))


class WrittenCondition(Fields):
    """As the feature has it that writes conditions."""

    type: str
    status: str
    reason: str
    since: str | None


class Conditions(WrittenFields):
    conditions: list[WrittenCondition]


def world(parsed, rule):
    conditions = [
        {
            "type": "DontScheduleViolated",
            "status": "True",
            "message": "1 of 1 node (node-a)",
            "lastTransitionTime": SINCE.format(2),
        },
        {"type": "Hostile", "status": 1, "lastTransitionTime": []},
        "not a condition",
        {
            "type": "Later",
            "status": "True",
            "message": "m",
            "lastTransitionTime": "2033-01-01T00:00:00Z",
        },
        {"type": "Never", "status": "True", "message": "m", "lastTransitionTime": "yesterday"},
    ]
    policy = parsed("demo", dontschedule=[rule("m GreaterThan 5")])
    policy = dataclasses.replace(policy, status={"conditions": conditions})
    pods = [
        pod("web", "False", message="0/1 nodes: violating demo: m GreaterThan 5"),
        pod("other", "False", message="0/1 nodes: Insufficient cpu"),
        pod("placed", "True", node="node-a"),
    ]
    written = Conditions(
        [
            WrittenCondition(
                "plimsoll.io/Demo", "True", "DontScheduleViolated", since=SINCE.format(1)
            ),
            WrittenCondition("x", "True", "r", since=None),
        ]
    )
    return policy, pods, written


def test_conditions_become_records_before_those_of_this_process(parsed, rule):
    policy, pods, written = world(parsed, rule)
    nodes = [Node(NodeMeta(name="node-a", uid="a"))]
    history, store = History(1 << 20, 1e9), Store(stale_after=60.0, started=0.0)
    recorder = Recorder(
        history,
        Series(1 << 20),
        HistoryMetrics(CollectorRegistry()),
        restore=lambda: restored([policy], nodes, pods, lambda _node: written),
        clock=lambda: 0.0,
        wall=lambda: NOW,
    )
    store.subscribe(["m"])
    store.report("node-a", Delta({"m": 9.0}), 0.0)
    decisions = decide([policy], ["node-a"], store, now=0.0)
    for _ in range(2):
        list(recorder.decided(Decided(decisions, 0.0)))
    found = [one.fields for one in history.newest_first() if one is not None][::-1]
    assert [
        (one["kind"], one.get("text", one.get("why")), one.get("restored")) for one in found
    ] == [
        ("written", "condition plimsoll.io/Demo=True (DontScheduleViolated)", True),
        ("policy", "condition DontScheduleViolated=True: 1 of 1 node (node-a)", True),
        ("refused", "0/1 nodes: violating demo: m GreaterThan 5", True),
        ("placed", None, True),
        ("violated", "first", None),
    ]
    assert [one["at"] for one in found] == sorted(one["at"] for one in found)
    assert history.complete_since(NOW) == NOW
