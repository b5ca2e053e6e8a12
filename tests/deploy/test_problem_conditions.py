"""Node conditions of problems on a real API server: with the shipped rights and guard, beside another reporter."""

import time

import pytest
import yaml

from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.readings.reported import NodeProblems
from evaluator.core.writes.conditions import ConditionWrites
from evaluator.features.problems import plan
from evaluator.features.problems.plan import MANAGER, ProblemConditions
from sandbox.client.client import STRATEGIC, Client
from sandbox.client.objects import NODES
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from tests.eventually import eventually
from wire.problems import ProblemCondition, Problems

pytestmark = pytest.mark.e2e

KINDS = {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}  # fmt: skip
TYPES = frozenset({"KernelDeadlock", "ReadonlyFilesystem"})
FOUND = [
    ProblemCondition("KernelDeadlock", True, "RuntimeHung", "task containerd:1 hangs", 1e9),
    ProblemCondition("ReadonlyFilesystem", True, "FilesystemIsReadOnly", "sda1", 1e9),
]


@pytest.fixture
async def administrator(control_plane, kubectl, with_components):
    """In a cluster with a node on which another reporter has written ReadonlyFilesystem."""
    objects = with_components("core", "guard", "problem-conditions")
    given = [obj for obj in objects if obj["kind"] in KINDS]
    kubectl(
        "apply", "--server-side", "--validate=ignore", "-f", "-", given=yaml.safe_dump_all(given)
    )
    async with Client(
        control_plane.url, token=control_plane.token, ca=control_plane.ca
    ) as connected:
        await connected.create(NODES, node_object("node-a", 0, now=1e9))
        condition = {"type": "ReadonlyFilesystem", "status": "False", "reason": "Fine"}
        body = {"status": {"conditions": [condition]}}
        path = NODES.path("", "node-a") + "/status"
        await connected.request("PATCH", path, body=body, content_type=STRATEGIC)
        yield connected
        await connected.delete(NODES, "node-a")


@pytest.fixture
async def evaluator(administrator, control_plane, kubectl, tmp_path):
    token = kubectl("-n", "plimsoll", "create", "token", "plimsoll-evaluator").strip()
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(control_plane.url, token=token, ca=control_plane.ca))
    made = await Kube.connect(str(path))
    yield made
    await made.close()


async def written(kube, found):
    """Give the node what its agent found; return whether that was a write, and the node."""
    node, problems = await kube.list_node("node-a"), NodeProblems()
    problems.report("node-a", Problems(tuple(found)))
    wanted = ProblemConditions(problems, TYPES, time.time)
    writes = ConditionWrites(kube, MANAGER, wanted.condition)
    apply = writes.compare("node-a", node, wanted["node-a"])
    return apply is not None, node if apply is None else await writes.send(apply)


def conditions(node):
    return {c.type: (c.status, c.reason) for c in node.status.conditions if c.type in TYPES}


async def test_problem_is_written_beside_another_reporter_and_ends(evaluator) -> None:
    wrote, node = await written(evaluator, FOUND)
    assert wrote
    others = {"ReadonlyFilesystem": ("False", "Fine")}
    assert conditions(node) == {"KernelDeadlock": ("True", "RuntimeHung"), **others}
    assert plan.foreign(node, TYPES).keys() == {"ReadonlyFilesystem"}
    assert await written(evaluator, FOUND) == (False, await evaluator.list_node("node-a"))
    healthy = [FOUND[0]._replace(active=False, reason="NoDeadlock"), FOUND[1]]
    _, node = await written(evaluator, healthy)
    assert conditions(node) == {"KernelDeadlock": ("False", "NoDeadlock"), **others}
    _, node = await written(evaluator, [])
    assert conditions(node) == others
    assert "Ready" in {c.type for c in node.status.conditions}, "nothing else was removed"


async def refusal(kube, body) -> str:
    """Return why the API server refuses conditions; empty if it does not."""
    node = await kube.list_node("node-a")
    try:
        await kube.apply_node_conditions("node-a", node.metadata.uid, body, manager=MANAGER)
    except KubeError as error:
        return str(error)
    return ""


async def test_guard_refuses_a_type_that_is_not_configured(evaluator) -> None:
    numbers = iter(range(10_000))  # the guard takes effect after a moment

    async def refused():
        reason = f"R{next(numbers)}"
        return await refusal(evaluator, [{"type": "Other", "status": "True", "reason": reason}])

    assert "sets no conditions but those" in await eventually(refused, every=0.2)
