"""kube-controller-manager scales and deletes by what the evaluator's custom metrics API answers."""

import asyncio

import pytest

from sandbox.client.client import ApiError
from sandbox.client.objects import DEPLOYMENTS, NAMESPACES, ObjectKind
from sandbox.controllers.kubelet import Kubelet
from sandbox.programs import AgentLaunch, agent_command
from tests.preloaded import Processes

pytestmark = [pytest.mark.e2e, pytest.mark.features("custom_metrics")]

AUTOSCALERS = ObjectKind("horizontalpodautoscalers", "autoscaling/v2")


def deployment(name, node):
    labels = {"app": name}
    pod = {"nodeName": node, "terminationGracePeriodSeconds": 0}
    pod["containers"] = [{"name": "c", "image": "none"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def autoscaler(name, metric):
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    at_once = {"stabilizationWindowSeconds": 0}
    return {
        "apiVersion": AUTOSCALERS.api_version,
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": reference,
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": [metric],
            "behavior": {"scaleUp": at_once, "scaleDown": at_once},
        },
    }


async def test_autoscalers_follow_a_prom_file(real, world, api, controllers, tmp_path):
    """Of type Object on a Node, and of type Pods: the value of the node on which each pod runs."""
    node = await world.add_node("a")
    await world.add_policy("p", dontschedule=["demand GreaterThan 100"])
    file = tmp_path / "demand.prom"
    file.write_text("node_demand 1\n")
    programs = Processes(tmp_path / "agents")
    kubelet = asyncio.create_task(Kubelet(world.client, [node]).run())
    described = {"apiVersion": "v1", "kind": "Node", "name": node}
    metric = {"name": "demand"}
    target = {"type": "AverageValue", "averageValue": "1"}
    metrics = {
        "object": {
            "type": "Object",
            "object": {"describedObject": described, "metric": metric, "target": target},
        },
        "pods": {"type": "Pods", "pods": {"metric": metric, "target": target}},
    }
    try:
        await world.evaluator.start(*api.flags())
        launch = AgentLaunch(node, tmp_path, "127.0.0.1:0", world.evaluator.agents)
        await programs.start("agent", agent_command(launch))
        await world.evaluator.ready()
        await api.register()
        await api.condition()
        assert await api.values("/nodes/*/demand") == {node: "1"}
        for name, of in metrics.items():
            for kind, body in (
                (DEPLOYMENTS, deployment(name, node)),
                (AUTOSCALERS, autoscaler(name, of)),
            ):
                body["metadata"]["namespace"] = world.namespace
                await world.client.create(kind, body)

        async def scaled(count):
            found = (await world.client.list(DEPLOYMENTS, world.namespace)).items
            return len(found) == 2 and all(
                one.get("status", {}).get("readyReplicas") == count for one in found
            )

        await world.eventually(lambda: scaled(1))
        file.write_text("node_demand 3\n")
        await world.eventually(lambda: scaled(3))
        file.write_text("node_demand 0\n")
        await world.eventually(lambda: scaled(1))
    finally:
        kubelet.cancel()
        await asyncio.wait([kubelet])
        await programs.close()


async def gone(world, name):
    try:
        await world.client.get(NAMESPACES, name)
    except ApiError as error:
        return error.status == 404
    return False


async def test_namespaces_are_deleted_unless_an_apiservice_is_down(real, world, api, controllers):
    """Without the component, an evaluator that is down stalls nothing; with it, deleting the APIServices ends the stall."""
    for name in ("off", "stalled"):
        await world.add_namespace(f"{name}-{world.suffix}")
    await world.client.delete(NAMESPACES, f"off-{world.suffix}")
    await world.eventually(lambda: gone(world, f"off-{world.suffix}"))
    await api.register()
    assert "failing or missing response" in await api.condition("False")
    await world.client.delete(NAMESPACES, f"stalled-{world.suffix}")

    async def stalled():
        found = await world.client.get(NAMESPACES, f"stalled-{world.suffix}")
        conditions = found["status"].get("conditions") or ()
        return any(
            one["type"] == "NamespaceDeletionDiscoveryFailure" and one["status"] == "True"
            for one in conditions
        )

    await world.eventually(stalled)
    await api.unregister()
    await world.eventually(lambda: gone(world, f"stalled-{world.suffix}"))
