"""No replica is ready without the TASPolicy CRD, at startup or later, and it reports what to install."""

import pytest

from sandbox import manifests
from sandbox.client.client import ApiError, ensure
from sandbox.client.objects import CRDS, POLICIES

pytestmark = pytest.mark.e2e

INSTALL = "TASPolicy CRD is not installed; run `kubectl apply -k deploy/crd`"
POD = {"metadata": {"name": "web", "namespace": "any"}, "spec": {"containers": []}}


@pytest.fixture
async def crd(world):
    """Install and delete the CRD of a separate API server; it is installed again at the end."""
    if world.plane.server is None:
        pytest.skip("deleting the CRD of a cluster deletes its policies")
    made = Crd(world)
    yield made
    await made.install()


class Crd:
    def __init__(self, world):
        self._world = world

    async def delete(self):
        for crd in manifests.crds():
            await self._world.client.delete(CRDS, crd["metadata"]["name"])
        await self._world.eventually(self._is_unserved)

    async def install(self):
        for crd in manifests.crds():
            await ensure(self._world.client, CRDS, crd)
        await self._world.eventually(self._is_served)

    async def _is_unserved(self):
        return not await self._is_served()

    async def _is_served(self):
        try:
            await self._world.client.list(POLICIES)
        except ApiError as error:
            if error.status not in {404, 429}:
                raise
            return False
        return True


async def waits_for_the_crd(world):
    async def says():
        return await world.evaluator.get("/readyz")

    async def named():
        status, text = await says()
        return status == 503 and INSTALL in text

    try:
        await world.eventually(named)
    except TimeoutError:
        raise AssertionError(f"{await says()}{world.evaluator.log()}") from None


async def test_replica_started_without_the_crd_becomes_ready_with_it(world, crd):
    await world.add_node("a")
    await crd.delete()
    await world.evaluator.start()
    await waits_for_the_crd(world)
    await crd.install()
    await world.evaluator.ready()


async def test_running_replica_without_the_crd_is_not_ready_until_it_returns(world, crd, tmp_path):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", dontschedule=["health Equals 1"])
    world.fleet.say(node, health=1)
    await world.start()
    pod = {**POD, "metadata": {"name": "web", "namespace": world.namespace}}
    pod["metadata"]["labels"] = {"telemetry-policy": policy}
    assert node in (await world.evaluator.filter(pod, [node]))["FailedNodes"]
    await crd.delete()
    await waits_for_the_crd(world)
    assert INSTALL in (await world.evaluator.filter(pod, [node]))["Error"]
    await crd.install()
    restored = await world.add_policy("demo", dontschedule=["health Equals 1"])
    assert restored == policy
    await world.evaluator.ready()

    async def refused():
        answer = await world.evaluator.filter(pod, [node])  # an error until the first reading
        return node in (answer.get("FailedNodes") or {})

    await world.eventually(refused)
    log = (tmp_path / "logs/evaluator.log").read_text()
    assert log.count("taspolicies are not served by the API server") == 1
    assert "404 Not Found" not in log
    assert "status=404" not in log
