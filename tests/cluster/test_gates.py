"""API server rules for scheduling gates, on the sandbox and a real API server."""

import pytest

from sandbox.client.client import JSON_PATCH, MERGE, STRATEGIC, ApiError
from sandbox.client.objects import PODS

pytestmark = pytest.mark.e2e

OURS = {"name": "plimsoll.io/gang"}
OTHERS = {"name": "example.com/quota"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
IN_ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
ON_DISK = {"key": "disk", "operator": "In", "values": ["ssd"]}


def term(*expressions):
    return {"matchExpressions": list(expressions)}


def required(*timings):
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(timings)}}}}


def gated(*gates, **spec):
    return {"schedulingGates": list(gates or [OURS]), **spec}


@pytest.fixture
def add(world):
    """Create a pod; return the response."""

    async def create(**spec):
        return await world.add_pod("web", **spec)

    return create


@pytest.fixture
def change(world):
    """Patch it; return the response."""

    async def patch(body, kind=MERGE):
        return await world.client.patch(PODS, "web", body, world.namespace, content_type=kind)

    return patch


async def refusal(answer):
    """(code, reason, message) of a rejection."""
    with pytest.raises(ApiError) as refused:
        await answer
    return refused.value.status, refused.value.reason, refused.value.message


def gate_names(pod):
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


async def test_gated_pod_reports_so_from_creation(add):
    (condition,) = (await add(**gated()))["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "SchedulingGated"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param(gated(OURS, OURS), "spec.schedulingGates[1]: Duplicate", id="twice"),
        pytest.param(gated(OURS, {"name": "-x"}), "spec.schedulingGates[1]: Invalid", id="name"),
        pytest.param(gated({"name": "a/b/c"}), "spec.schedulingGates[0]: Invalid", id="prefix"),
        pytest.param(gated({"name": ""}), "spec.schedulingGates[0]: Invalid", id="no name"),
        pytest.param(gated(nodeName="n"), "spec.nodeName: Forbidden", id="on a node"),
    ],
)
async def test_invalid_gates_are_rejected_at_creation(add, spec, field):
    code, reason, message = await refusal(add(**spec))
    assert (code, reason) == (422, "Invalid")
    assert field in message


def lift(index, *more, uid=None):
    """The patch of the ungater: tests gate, position and uid."""
    path = f"/spec/schedulingGates/{index}"
    whose = [{"op": "test", "path": "/metadata/uid", "value": uid}] if uid else []
    test = {"op": "test", "path": f"{path}/name", "value": OURS["name"]}
    return (*whose, test, {"op": "remove", "path": path}, *more)


async def test_own_gate_is_removed_and_others_stay(add, change):
    made = await add(**gated(OTHERS, OURS))
    note = {"op": "add", "path": "/metadata/annotations", "value": {"plimsoll.io/x": "1"}}
    left = await change(lift(1, note, uid=made["metadata"]["uid"]), JSON_PATCH)
    assert gate_names(left) == [OTHERS["name"]]
    assert left["metadata"]["annotations"]["plimsoll.io/x"] == "1"


async def test_last_gate_leaves_no_empty_list(add, change):
    await add(**gated())
    assert "schedulingGates" not in (await change(lift(0), JSON_PATCH))["spec"]


@pytest.mark.parametrize(
    ("spec", "patch"),
    [
        pytest.param(gated(OTHERS), lift(0), id="foreign gate"),
        pytest.param(gated(OTHERS), lift(1), id="no second"),
        pytest.param({}, lift(0), id="no gate"),
        pytest.param(gated(), lift(0, uid="another"), id="another pod of the name"),
        pytest.param(
            gated(),
            ({"op": "add", "path": "/metadata/annotations/a", "value": "b"},),
            id="annotation where there is none",
        ),
    ],
)
async def test_removal_of_a_missing_gate_is_rejected_without_a_reason(add, change, spec, patch):
    await add(**spec)
    code, reason, message = await refusal(change(patch, JSON_PATCH))
    assert (code, reason) == (422, "Invalid")
    assert message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param(gated(), [OURS, OTHERS], id="a second"),
        pytest.param({}, [OTHERS], id="a first"),
        pytest.param(gated(), [OTHERS], id="replaced by another"),
    ],
)
async def test_no_gate_can_be_added_after_creation(add, change, spec, wanted):
    await add(**spec)
    code, _, message = await refusal(change({"spec": {"schedulingGates": wanted}}))
    assert code == 422
    assert "only deletion is allowed, but found new scheduling gate 'example.com/quota'" in message


@pytest.mark.parametrize(
    ("patch", "kind"),
    [
        ({"spec": {"schedulingGates": [OTHERS]}}, MERGE),
        ({"spec": {"schedulingGates": [{"$patch": "delete", **OURS}]}}, STRATEGIC),
    ],
)
async def test_other_patch_types_remove_a_gate_too(add, change, patch, kind):
    await add(**gated(OURS, OTHERS))
    assert gate_names(await change(patch, kind)) == [OTHERS["name"]]


async def test_gated_pod_gets_no_node_by_binding_or_write(world, add, change):
    pod = await add(**gated())
    code, reason, message = await refusal(world.client.bind(pod, "node"))
    assert (code, reason) == (409, "Conflict")
    assert "pod web has non-empty .spec.schedulingGates" in message
    assert (await refusal(change({"spec": {"nodeName": "n"}})))[0] == 422
    at_once = {"spec": {"nodeName": "n", "schedulingGates": None}}
    assert (await refusal(change(at_once)))[0] == 422


async def test_ungated_pod_can_be_bound(world, add, change):
    pod = await add(**gated())
    await change(lift(0), JSON_PATCH)
    await world.client.bind(pod, "node")
    found = await world.client.get(PODS, "web", world.namespace)
    assert found["spec"]["nodeName"] == "node"
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


@pytest.mark.parametrize(
    ("spec", "narrower"),
    [
        pytest.param({}, {"nodeSelector": {"zone": "a"}}, id="selector"),
        pytest.param({}, required(term(IN_ZONE)), id="affinity where there is none"),
        pytest.param(required(term(IN_ZONE)), required(term(IN_ZONE, ON_DISK)), id="one more"),
        pytest.param(
            required(term(IN_ZONE)),
            {
                "affinity": {
                    "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term(ON_DISK)}]}
                }
            },
            id="a preference beside it",
        ),
    ],
)
async def test_only_a_gated_pod_may_be_narrowed(world, add, change, spec, narrower):
    await add(**gated(**spec))
    assert await change({"spec": narrower})
    await change({"spec": {"schedulingGates": None}})
    other = {"nodeSelector": {"zone": "b"}, **({"affinity": None} if spec else {})}
    assert (await refusal(change({"spec": other})))[0] == 422


@pytest.mark.parametrize(
    ("spec", "wider", "field"),
    [
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "c"}}, "spec.nodeSelector: Invalid"),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": None}, "spec.nodeSelector: Invalid"),
        (required(term(IN_ZONE)), {"affinity": None}, f"{TERMS}: Invalid"),
        (required(term(IN_ZONE)), required(term(IN_ZONE), term(ON_DISK)), f"{TERMS}: Invalid"),
        (required(term(IN_ZONE, ON_DISK)), required(term(IN_ZONE)), f"{TERMS}[0]: Invalid"),
        (required(term(IN_ZONE)), required(term(ON_DISK, IN_ZONE)), f"{TERMS}[0]: Invalid"),
        (required({}), required(term(ON_DISK)), f"{TERMS}[0]: Invalid"),
        (
            {},
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "k", "labelSelector": {}}]}}},
            "spec: Forbidden",
        ),
        ({}, {"schedulerName": "other"}, "spec: Forbidden"),
    ],
)
async def test_gated_pod_may_not_be_widened_or_changed_otherwise(add, change, spec, wider, field):
    await add(**gated(**spec))
    code, _, message = await refusal(change({"spec": wider}))
    assert code == 422
    assert field in message
