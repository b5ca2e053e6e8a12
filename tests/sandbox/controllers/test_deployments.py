"""A Deployment keeps its pods, whatever deletes them."""

import asyncio
import random

import pytest

from sandbox.client.objects import DEPLOYMENTS, PODS, REPLICASETS
from sandbox.controllers.deployments import Deployments


@pytest.fixture
async def running(client):
    task = asyncio.create_task(Deployments(client, rng=random.Random(1)).run())
    yield
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture
async def web(client):
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "none:1"}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    return await client.create(DEPLOYMENTS, body)


@pytest.fixture
def settled(client, eventually):
    """Wait for this many pods and a matching status; return the pods."""

    async def wait(count):
        async def there():
            pods = (await client.list(PODS, "default", labels="app=web")).items
            status = (await client.get(DEPLOYMENTS, "web", "default"))["status"]
            return (len(pods) == status.get("replicas", 0) == count) and (pods or "none")

        return await eventually(there)

    return wait


async def test_pods_are_created_replaced_and_scaled(client, running, web, settled):
    first = await settled(2)
    lost = first[0]["metadata"]["name"]
    await client.delete(PODS, lost, "default")
    second = await settled(2)
    assert lost not in {pod["metadata"]["name"] for pod in second}
    await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, "default")
    await settled(1)
    (replica_set,) = (await client.list(REPLICASETS, "default")).items
    assert replica_set["metadata"]["ownerReferences"][0]["uid"] == web["metadata"]["uid"]


async def test_readiness_is_written_into_the_status(client, running, web, settled, eventually):
    for pod in await settled(2):
        status = {
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        }
        await client.patch(PODS, pod["metadata"]["name"], status, "default", subresource="status")

    async def available():
        found = await client.get(DEPLOYMENTS, "web", "default")
        return found["status"].get("availableReplicas") == 2 and found

    found = await eventually(available)
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]


async def test_deleted_deployment_deletes_its_pods(client, running, web, settled, eventually):
    await settled(2)
    await client.delete(DEPLOYMENTS, "web", "default")

    async def empty():
        return not (await client.list(PODS, "default")).items

    await eventually(empty)
    assert (await client.list(REPLICASETS, "default")).items == ()
