"""Node conditions of problems: what is written, what others own, and acknowledgements."""

import json

import msgspec
import pytest

from evaluator.core.model.node import Node
from evaluator.core.readings.reported import NodeProblems
from evaluator.core.writes import conditions
from evaluator.core.writes.node_plan import NodePlan
from evaluator.features.problems import plan
from evaluator.features.problems.plan import MANAGER, ProblemConditions
from wire.problems import ProblemCondition, Problems

TYPES = frozenset({"KernelDeadlock", "ReadonlyFilesystem"})
ACTIVE = ProblemCondition(
    "KernelDeadlock", True, "DockerHung", "task docker:1 hangs", 1_787_385_600.0
)
HEALTHY = ProblemCondition("KernelDeadlock", False, "NoDeadlock", "fine", 0.0)
OTHER = ProblemCondition("Unconfigured", True, "Reason", "", 1.0)
NOW = 1_787_385_700.0


def node(conditions=(), managers=None, annotations=None) -> Node:
    """A node; `managers`: condition type to field manager."""
    fields = [
        {
            "manager": manager,
            "operation": "Apply" if manager == MANAGER else "Update",
            "subresource": "status",
            "fieldsV1": {"f:status": {"f:conditions": {f'k:{{"type":"{kind}"}}': {}}}},
        }
        for kind, manager in (managers or {}).items()
    ]
    metadata = {"name": "n", "uid": "u", "resourceVersion": "7", "managedFields": fields, "annotations": annotations or {}}  # fmt: skip
    status = {"conditions": [{"type": "Ready", "status": "True"}, *conditions]}
    return msgspec.json.decode(json.dumps({"metadata": metadata, "status": status}), type=Node)


def condition(status: str, reason: str, kind: str = "KernelDeadlock") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": "2026-08-22T08:00:00Z"}  # fmt: skip


def compared(known, found):
    """The apply that gives a node what its agent found, and the conditions in it; None if there is nothing to write."""
    problems = NodeProblems()
    if found is not None:
        problems.report("n", Problems(tuple(found)))
    wanted = ProblemConditions(problems, TYPES, lambda: NOW)
    writes = NodePlan(lambda _name, node, states: conditions.compare(node, states, MANAGER))
    writes.set_desired(wanted)
    writes.changed("n")
    writes.step({"n": known}.get, 1)
    apply = writes.writes.get("n")
    return apply, None if apply is None else apply.body(wanted.condition)


def test_problem_becomes_a_condition_of_a_permitted_type() -> None:
    _, body = compared(node(), [ACTIVE, OTHER])
    assert body == [
        {
            "type": "KernelDeadlock",
            "status": "True",
            "reason": "DockerHung",
            "message": "task docker:1 hangs",
            "lastTransitionTime": "2026-08-22T08:00:00Z",
            "lastHeartbeatTime": "2026-08-22T08:01:40Z",
        }
    ]


@pytest.mark.parametrize(
    ("present", "manager", "found", "written"),
    [
        (condition("True", "DockerHung"), MANAGER, [ACTIVE], None),
        (condition("False", "NoDeadlock"), MANAGER, [ACTIVE], {"KernelDeadlock"}),
        (condition("True", "DockerHung"), MANAGER, [HEALTHY], {"KernelDeadlock"}),
        (condition("True", "Other"), MANAGER, [ACTIVE], {"KernelDeadlock"}),
        (condition("False", "NoDeadlock"), "node-problem-detector", [ACTIVE], None),
        (condition("False", "NoDeadlock"), "plimsoll", [ACTIVE], None),
        (condition("True", "DockerHung"), MANAGER, None, None),  # the agent has not reported: nothing changes
        (condition("True", "DockerHung"), MANAGER, [], set()),
    ],
)  # fmt: skip
def test_only_changes_of_own_conditions_are_written(present, manager, found, written) -> None:
    apply, body = compared(node([present], {"KernelDeadlock": manager}), found)
    assert (None if apply is None else {c["type"] for c in body}) == written
    if written == set():
        assert apply.removal[-1] == {"op": "remove", "path": "/status/conditions/1"}


def test_transition_time_stays_while_the_status_does() -> None:
    known = node([condition("True", "Other")], {"KernelDeadlock": MANAGER})
    _, (entry,) = compared(known, [ACTIVE._replace(since=NOW)])
    assert entry["lastTransitionTime"] == "2026-08-22T08:00:00Z"


def test_transition_that_an_agent_dates_in_the_future_is_now() -> None:
    _, (entry,) = compared(node(), [ACTIVE._replace(since=2 * NOW)])
    assert entry["lastTransitionTime"] == entry["lastHeartbeatTime"] == "2026-08-22T08:01:40Z"


def test_conditions_of_other_reporters_are_named() -> None:
    known = node([condition("False", "NoDeadlock"), condition("False", "W", "ReadonlyFilesystem")], {"KernelDeadlock": "node-problem-detector", "ReadonlyFilesystem": MANAGER})  # fmt: skip
    assert plan.foreign(known, TYPES) == {"KernelDeadlock": "node-problem-detector"}


def test_acknowledgements_have_a_time_and_a_user() -> None:
    notes = {
        "plimsoll.io/ack.KernelDeadlock": "2026-08-22T08:00:00Z ada",
        "plimsoll.io/ack.Bad": "yesterday",
        "plimsoll.io/ack.": "2026-08-22T08:00:00Z",
        "plimsoll.io/ack.Hostile": "2026-08-22T08:00:00Z \x1b[31m" + "x" * 500,
        "plimsoll.io/memory": "2026-08-22T08:00:00Z",
        "other": "2026-08-22T08:00:00Z",
    }
    found = plan.acknowledgements(node(annotations=notes), NOW)
    assert found["KernelDeadlock"] == (1_787_385_600.0, "ada")
    assert found.keys() == {"KernelDeadlock", "Hostile"}
    assert found["Hostile"][1].isprintable()
    assert len(found["Hostile"][1]) < 250


@pytest.mark.parametrize("text", ["", "Kernel Deadlock", "Ready", "KernelDeadlock,", "a" * 300])
def test_invalid_types_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="condition"):
        plan.condition_types(text)
