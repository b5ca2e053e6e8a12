"""What a stolen evaluator token can do on a real API server, with the shipped RBAC and the guard."""

import asyncio
import copy
import itertools
import json

import pytest
import yaml

from evaluator.core.cache.cluster import decode_node
from evaluator.core.kube.client import Kube
from evaluator.core.model.node import NodeCondition
from evaluator.core.model.node_labels import LabelApply
from evaluator.core.model.pod import REQUEUED_AT
from evaluator.core.writes.conditions import ConditionWrites
from evaluator.features.gangs.core.membership import ADMITTED, GATE, decode_gated, ungate_patch
from evaluator.features.memory.controller import FIELD_MANAGER
from evaluator.features.node_actions import writes
from evaluator.features.node_actions.names import AUTOSCALER, DOMAIN, own_prefixes
from sandbox.client.client import MERGE, ApiError, Client
from sandbox.client.objects import NODES, PODS
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from tests.patience import PATIENCE

pytestmark = pytest.mark.e2e

ACCOUNT = ("plimsoll", "plimsoll-evaluator")
RIGHTS = {"Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
GUARD = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
FINE = {"demo": "violating", "telemetry.aware.scheduling.demo/size": "large"}
FOREIGN = "example.com/quota"
OTHERS = {"key": "example.com/gpu", "value": "x", "effect": "NoSchedule"}
OURS = {"key": "plimsoll.io/ns.demo", "value": "violating", "effect": "NoSchedule"}


@pytest.fixture
async def administrator(control_plane, kubectl, with_components):
    """In a cluster with a node, a waiting pod, and one with our gate and a foreign one."""
    objects = with_components("core", "gangs", "conditions", "guard")
    given = [obj for obj in objects if obj["kind"] in RIGHTS | GUARD]
    kubectl(
        "apply", "--server-side", "--validate=ignore", "-f", "-", given=yaml.safe_dump_all(given)
    )
    node = node_object("node-a", 0, now=1e9)
    node["metadata"]["labels"] |= {"tier": "gold"}
    node["metadata"]["annotations"] = {"owner": "somebody"}
    node["spec"] = {"taints": [OTHERS]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    async with Client(
        control_plane.url, token=control_plane.token, ca=control_plane.ca
    ) as connected:
        await connected.create(NODES, node)
        pod["spec"]["automountServiceAccountToken"] = False
        await connected.create(PODS, pod)
        held = copy.deepcopy(pod)
        held["metadata"] |= {"name": "held", "annotations": {"owner": "somebody"}}
        held["spec"]["schedulingGates"] = [{"name": GATE}, {"name": FOREIGN}]
        await connected.create(PODS, held)
        yield connected
        for name in ("web", "held"):
            await connected.delete(PODS, name, "default")
        await connected.delete(NODES, "node-a")


@pytest.fixture
def token(administrator, kubectl):
    namespace, account = ACCOUNT
    return kubectl("-n", namespace, "create", "token", account).strip()


@pytest.fixture
async def evaluator(control_plane, token, tmp_path):
    """The evaluator's own client, with its account's token."""
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(control_plane.url, token=token, ca=control_plane.ca))
    made = await Kube.connect(str(path))
    yield made
    await made.close()


@pytest.fixture
async def stolen_token(control_plane, token):
    """Another client with the same token. The guard takes effect after a moment."""
    async with Client(control_plane.url, token=token, ca=control_plane.ca) as connected:
        async with asyncio.timeout(PATIENCE):
            for (
                number
            ) in itertools.count():  # a new label each time: a repeated one changes nothing
                probe = {"metadata": {"labels": {"probe": f"number-{number}"}}}
                if await refused(connected, NODES, "node-a", probe) and await refused(
                    connected, PODS, "web", probe, "default"
                ):
                    break
                await asyncio.sleep(0.2)
        yield connected


async def refused(client, kind, name, body, namespace="", sub=""):
    """Whether the guard, and not RBAC, rejects a patch."""
    try:
        await client.request(
            "PATCH", kind.path(namespace, name) + sub, body=body, content_type=MERGE
        )
    except ApiError as error:
        return "plimsoll-evaluator" in error.message and "denied request" in error.message
    return False


async def test_evaluator_can_do_its_work(stolen_token, evaluator, administrator):
    node = await administrator.get(NODES, "node-a")
    uid = node["metadata"]["uid"]
    found = await evaluator.apply_node_labels(LabelApply("node-a", uid, FINE))
    assert FINE.items() <= (found.metadata.labels or {}).items()
    raw = await administrator.get(NODES, "node-a")
    await evaluator.put_managed_fields(raw, raw["metadata"]["managedFields"])
    found = await evaluator.apply_node_labels(LabelApply("node-a", uid, {}))
    assert not FINE.keys() & (found.metadata.labels or {}).keys()
    pod = await administrator.get(PODS, "web", "default")
    await evaluator.annotate_pod("default", "web", pod["metadata"]["uid"], {REQUEUED_AT: "now"})
    pod = await administrator.get(PODS, "web", "default")
    assert pod["metadata"]["annotations"] == {REQUEUED_AT: "now"}


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"tier": "lead"}}},
        {"metadata": {"labels": {"tier": None}}},
        {"metadata": {"labels": {"tier": "violating"}}},
        {"metadata": {"labels": {"anything": "else"}}},
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"labels": {"kubernetes.io/hostname": "node-b"}}},
        {"metadata": {"labels": {"node-restriction.kubernetes.io/x": "violating"}}},
        {"metadata": {"annotations": {"owner": "me"}}},
        {"metadata": {"annotations": {"owner": None}}},
        {"metadata": {"annotations": {REQUEUED_AT: "now"}}},
        {"metadata": {"finalizers": ["example.com/never"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"providerID": "else"}},
        {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}},
        {"spec": {"taints": []}},
        {"spec": {"taints": [OTHERS, OURS | {"effect": "NoExecute"}]}},
        {"spec": {"taints": [OTHERS, OURS | {"value": "x"}]}},
        {"spec": {"taints": [OTHERS, OURS | {"key": "node.kubernetes.io/unreachable"}]}},
        {"spec": {"taints": [OURS, OTHERS | {"effect": "PreferNoSchedule"}]}},
    ],
    ids=str,
)
async def test_stolen_token_can_label_and_taint_nodes_and_do_nothing_else_to_them(
    stolen_token, administrator, body
):
    before = await administrator.get(NODES, "node-a")
    assert await refused(stolen_token, NODES, "node-a", body)
    after = await administrator.get(NODES, "node-a")
    assert (before["spec"], before["metadata"]["labels"]) == (
        after["spec"],
        after["metadata"]["labels"],
    )


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"tier": "lead"}}},
        {"status": {"capacity": {"cpu": "1000"}}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}},
        {"status": {"conditions": []}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}},
    ],
    ids=str,
)
async def test_stolen_token_can_set_our_conditions_and_nothing_else_in_the_status_of_nodes(
    stolen_token, body
):
    assert await refused(stolen_token, NODES, "node-a", body, sub="/status")


async def test_evaluator_can_write_and_remove_its_memory_of_a_node_and_no_other_annotation(
    evaluator, stolen_token, administrator
):
    other = {"metadata": {"annotations": {"note": "x"}}}
    assert await refused(stolen_token, NODES, "node-a", other)

    async def annotated(**annotations):
        found = decode_node(json.dumps(await administrator.get(NODES, "node-a")))
        await evaluator.apply_node_annotations(found, annotations, manager=FIELD_MANAGER)
        return (await administrator.get(NODES, "node-a"))["metadata"]["annotations"]

    before = (await administrator.get(NODES, "node-a"))["metadata"]["annotations"]
    memory = {"plimsoll.io/memory": "{}"}
    assert await annotated(**memory) == before | memory
    assert await annotated() == before


async def test_evaluator_can_taint_nodes_and_set_conditions(stolen_token, evaluator, administrator):
    async def tainted(*wanted):
        found = decode_node(json.dumps(await administrator.get(NODES, "node-a")))
        patch = writes.compare_taints(
            found, dict.fromkeys(wanted, "violating"), own_prefixes(DOMAIN)
        )
        await evaluator.patch_node("node-a", patch.operations)
        return (await administrator.get(NODES, "node-a"))["spec"]["taints"]

    autoscaler = f"{AUTOSCALER}ns.demo:PreferNoSchedule"
    before = (await administrator.get(NODES, "node-a"))["spec"]["taints"]
    after = await tainted("plimsoll.io/ns.demo:NoSchedule", autoscaler)
    assert (after[: len(before)], after[len(before)]) == (before, OURS)
    assert await tainted() == before
    conditions = ConditionWrites(
        evaluator,
        "plimsoll",
        lambda _node, kind, state: NodeCondition.in_state(kind, state)._replace(since=1e9),
    )
    node = decode_node(json.dumps(await administrator.get(NODES, "node-a")))
    for wanted in ({"plimsoll.io/Demo": "True/DescheduleViolated"}, {}):
        node = await conditions.send(conditions.compare("node-a", node, wanted))
        found = {one.type: one.state for one in node.status.conditions}
        assert wanted.items() <= found.items()
    assert "plimsoll.io/Demo" not in found


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"app": "else"}}},
        {"metadata": {"labels": {"demo": "violating"}}},
        {"metadata": {"annotations": {"note": "x"}}},
        {"metadata": {"finalizers": ["example.com/never"]}},
        {"status": {"phase": "Succeeded"}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    ],
    ids=str,
)
async def test_stolen_token_can_requeue_pods_and_do_nothing_else_to_them(stolen_token, body):
    assert await refused(stolen_token, PODS, "web", body, "default", "/status")


async def test_evaluator_can_lift_its_gate_and_record_when(stolen_token, evaluator, administrator):
    held = decode_gated(json.dumps(await administrator.get(PODS, "held", "default")))
    await evaluator.patch_pod("default", "held", ungate_patch(held, "2026-01-01T00:00:00.000Z"))
    pod = await administrator.get(PODS, "held", "default")
    assert pod["spec"]["schedulingGates"] == [{"name": FOREIGN}]
    assert pod["metadata"]["annotations"].keys() == {"owner", ADMITTED}


OURS_GONE = {"spec": {"schedulingGates": [{"name": FOREIGN}]}}
"""As a merge patch, which replaces lists."""
BORN_WITH = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]
"""Tolerations that the API server adds to each pod and that cannot be removed."""


FORBIDDEN = [
    {"spec": {"schedulingGates": []}},
    {"spec": {"schedulingGates": [{"name": GATE}]}},
    {"metadata": {"annotations": {ADMITTED: "now"}}},
    {"metadata": {"labels": {"app": "else"}}},
    *(
        {**OURS_GONE, **more}
        for more in (
            {"metadata": {"labels": {"app": "else"}}},
            {"metadata": {"annotations": {"note": "x"}}},
            {"metadata": {"annotations": {"owner": None}}},
            {"metadata": {"finalizers": ["example.com/never"]}},
        )
    ),
    *(
        {"spec": {**OURS_GONE["spec"], **more}}
        for more in (
            {"containers": [{"name": "c", "image": "else"}]},
            {"tolerations": [*BORN_WITH, {"operator": "Exists"}]},
            {"nodeSelector": {"kubernetes.io/hostname": "node-b"}},
            {"activeDeadlineSeconds": 1},
        )
    ),
]
"""Changes of a gated pod."""


async def test_stolen_token_can_lift_our_gate_and_do_nothing_else_to_pods(stolen_token):
    for body in FORBIDDEN:
        assert await refused(stolen_token, PODS, "held", body, "default"), body


async def test_same_rights_without_the_guard_allow_all_that(administrator):
    """Otherwise the guard would protect nothing."""
    for body in (
        {"spec": {"containers": [{"name": "c", "image": "else"}]}},
        {"spec": {"tolerations": [*BORN_WITH, {"operator": "Exists"}]}},
        {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node-b"}}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"schedulingGates": []}},
    ):
        path = PODS.path("default", "held")
        await administrator.request("PATCH", path, body=body, content_type=MERGE)


async def test_other_clients_with_the_same_rights_are_not_restricted(stolen_token, administrator):
    """An administrator; the kubelet is another account too."""
    labels = {"metadata": {"labels": {"tier": "silver"}}, "spec": {"unschedulable": True}}
    path = NODES.path("", "node-a")
    found = await administrator.request("PATCH", path, body=labels, content_type=MERGE)
    assert found["spec"]["unschedulable"] is True


async def test_rbac_alone_rejects_the_rest(stolen_token):
    for method, path in (
        ("GET", "/api/v1/secrets"),
        ("DELETE", NODES.path("", "node-a")),
        ("DELETE", PODS.path("default", "web")),
    ):
        with pytest.raises(ApiError) as caught:
            await stolen_token.request(method, path)
        assert caught.value.status == 403
