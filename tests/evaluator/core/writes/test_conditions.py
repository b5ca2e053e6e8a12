"""Conditions of nodes under the API server's rules: ours are set and cleared, those of others stay."""

import json

import pytest

from evaluator.core.cache.cluster import decode_node
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.node import NodeCondition
from evaluator.core.writes.conditions import ConditionWrites, compare, conflicting_types, removals

MANAGER, OTHER = "plimsoll-one", "plimsoll-two"
STATUS = "/api/v1/nodes/node-a/status"


class World:
    """A node, and the conditions that two features want on it."""

    def __init__(self, api, kube):
        self._api, self._kube = api, kube
        self.at = 1e9

    async def node(self):
        return decode_node(json.dumps(await self._api.get("/api/v1/nodes/node-a")))

    async def want(self, *, manager=MANAGER, **states):
        """Type → state; return whether that was a write."""
        writes = ConditionWrites(self._kube, manager, self.describe)
        apply = writes.compare("node-a", await self.node(), states)
        if apply is not None:
            await writes.send(apply)
        return apply is not None

    def describe(self, _node, kind, state):
        return NodeCondition.in_state(kind, state)._replace(since=self.at, message="why")

    async def report(self, kind, state):
        """Another reporter writes a condition, as node-problem-detector does."""
        status, _, reason = state.partition("/")
        condition = {"type": kind, "status": status, "reason": reason}
        body = {"status": {"conditions": [condition]}}
        patch = "application/strategic-merge-patch+json"
        await self._api.call("PATCH", f"{STATUS}?fieldManager=npd", body, patch)

    async def states(self):
        return {c.type: c.state for c in (await self.node()).status.conditions if c.type != "Ready"}


@pytest.fixture
async def world(api, connect):
    await api.node("node-a")
    return World(api, await connect(api.url))


async def test_conditions_are_set_changed_and_cleared(world):
    assert await world.want(Full="True/Disk", Hung="True/Runtime")
    assert not await world.want(Full="True/Disk", Hung="True/Runtime")
    assert await world.want(Full="False/Cleared", Hung="True/Runtime")
    assert await world.states() == {"Full": "False/Cleared", "Hung": "True/Runtime"}
    assert await world.want(Hung="True/Runtime")
    assert await world.states() == {"Hung": "True/Runtime"}
    assert await world.want()
    assert await world.states() == {}
    assert not await world.want()
    assert (await world.node()).ready_status == "True"


async def test_features_with_managers_of_their_own_leave_each_other_alone(world):
    await world.want(Full="True/Disk")
    await world.want(manager=OTHER, Hung="True/Runtime")
    await world.want(Full="False/Cleared")
    assert not await world.want(manager=OTHER, Hung="True/Runtime", Full="True/Mine")
    await world.want(manager=OTHER)
    assert await world.states() == {"Full": "False/Cleared"}


async def test_transition_time_changes_with_the_status_alone(world):
    async def since():
        return (await world.node()).own_conditions(MANAGER)["Full"].since

    await world.want(Full="True/Disk")
    world.at += 60
    await world.want(Full="True/Inodes")
    assert await since() == 1e9
    await world.want(Full="False/Cleared")
    assert await since() == 1e9 + 60


async def test_condition_of_another_reporter_is_left_to_it(world):
    await world.report("Hung", "False/Fine")
    await world.want(Full="True/Disk", Hung="True/Runtime")
    assert await world.states() == {"Full": "True/Disk", "Hung": "False/Fine"}
    assert (await world.node()).foreign_conditions(MANAGER).keys() == {"Hung"}
    await world.want()
    assert await world.states() == {"Hung": "False/Fine"}


async def test_condition_that_another_reporter_takes_over_outlives_ours(world):
    await world.want(Full="True/Disk", Hung="True/Runtime")
    await world.report("Hung", "False/Fine")
    assert await world.want(Full="False/Cleared", Hung="True/Runtime")
    assert await world.states() == {"Full": "False/Cleared", "Hung": "False/Fine"}
    await world.want()
    assert await world.states() == {"Hung": "False/Fine"}


async def test_conflict_that_the_node_as_cached_does_not_show_costs_no_other_condition(world):
    before = await world.node()
    await world.report("Hung", "False/Fine")
    writes = ConditionWrites(world._kube, MANAGER, world.describe)
    wanted = {"Full": "True/Disk", "Hung": "True/Runtime"}
    await writes.send(writes.compare("node-a", before, wanted))
    assert await world.states() == {"Full": "True/Disk", "Hung": "False/Fine"}


async def test_clean_removes_the_conditions_of_one_manager(world):
    await world.want(Full="True/Disk", Hung="True/Runtime")
    await world.want(manager=OTHER, Slow="True/Fan")
    (removal,) = removals(await world.node(), MANAGER)
    assert removal.what == "condition Full, Hung"
    await world._kube.patch_node_status("node-a", removal.write.operations)
    assert await world.states() == {"Slow": "True/Fan"}
    assert [*removals(await world.node(), MANAGER)] == []


def test_removal_is_for_the_node_as_read():
    entry = {
        "manager": MANAGER,
        "operation": "Apply",
        "subresource": "status",
        "fieldsV1": {"f:status": {"f:conditions": {'k:{"type":"Full"}': {}}}},
    }
    metadata = {"name": "n", "uid": "u", "resourceVersion": "7", "managedFields": [entry]}
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Full", "status": "True"}]
    node = decode_node(json.dumps({"metadata": metadata, "status": {"conditions": conditions}}))
    assert compare(node, {}, MANAGER).removal == (
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "remove", "path": "/status/conditions/1"},
    )


FIELD = '.status.conditions[type="Hung"].reason'


@pytest.mark.parametrize(
    ("causes", "types"),
    [
        ([], set()),
        ([{"reason": "FieldManagerConflict", "field": FIELD}], {"Hung"}),
        ([{"reason": "FieldManagerConflict", "field": FIELD.replace("Hung", r"a\"b/c")}], {'a"b/c'}),
        ([{"reason": "FieldManagerConflict", "field": ".metadata.labels.demo"}], set()),
        ([{"reason": "Other", "field": FIELD}], set()),
        ([{}], set()),
    ],
)  # fmt: skip
def test_conflicting_types_are_parsed_from_a_409(causes, types):
    assert conflicting_types(KubeError(409, "conflict", causes=tuple(causes))) == types
