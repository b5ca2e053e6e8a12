"""SIGTERM during a rollout: the replica answers until clients have removed it, and its last answers end their connections."""

import asyncio
import contextlib
import json
import os
import signal

import pytest

from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import CRDS, LEASES
from tests.cluster.evaluator import Evaluator
from tests.cluster.plane import sandbox_plane
from tests.eventually import eventually
from tests.patience import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions")]

BODY = json.dumps(
    {"Pod": {"metadata": {"name": "p", "namespace": "default"}}, "NodeNames": ["node-a"]}
).encode()
REQUEST = (
    b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
)


@pytest.fixture
async def stopping(tmp_path, dial):
    """An evaluator with an hour of --shutdownDelay that got SIGTERM, and two connections from before."""
    async with contextlib.AsyncExitStack() as stack:
        plane = await sandbox_plane(tmp_path, stack)
        for crd in manifests.crds():
            await ensure(plane.client, CRDS, crd)
        made = Evaluator(plane.kubeconfig, tmp_path / "logs")
        stack.push_async_callback(made.close)
        await made.start(
            "--shutdownDelay=1h", "--leaderElect=true", "--leaseNamespace=default", "--v=2"
        )
        await made.ready()

        async def leads():
            return await made.metric("plimsoll_leader") == 1

        await eventually(leads)
        made.connect = lambda: dial(int(made.extender.rpartition(":")[2].partition("/")[0]))
        made.kept, made.slow = await made.connect(), await made.connect()
        assert (await made.kept.ask(REQUEST)).status == 200
        await made.slow.say(REQUEST[:-1])
        made.pid = made._processes.pid("evaluator")
        made.client = plane.client
        os.kill(made.pid, signal.SIGTERM)
        yield made


async def unready(evaluator):
    async def is_unready():
        return (await evaluator.get("/readyz")) == (503, "waiting for this replica is stopping\n")

    await eventually(is_unready)


async def test_stopping_replica_answers_old_and_new_connections_and_closes_them(stopping):
    await unready(stopping)
    reply = await stopping.kept.ask(REQUEST)
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    for _ in range(3):
        fresh = await stopping.connect()
        reply = await fresh.ask(REQUEST)
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert await fresh.rest() == b""
    assert "delay=1h" in stopping.log()


async def test_stopping_leader_releases_its_lease_before_the_delay(stopping):
    async def released():
        lease = await stopping.client.get(LEASES, "plimsoll-evaluator", "default")
        return lease["spec"].get("holderIdentity", "") == ""

    await eventually(released)
    assert await stopping.metric("plimsoll_leader") == 0
    assert (await (await stopping.connect()).ask(REQUEST)).status == 200


async def test_second_signal_ends_the_delay_and_completes_requests_that_have_begun(stopping):
    await unready(stopping)
    os.kill(stopping.pid, signal.SIGTERM)
    port = int(stopping.extender.rpartition(":")[2].partition("/")[0])

    async def refused():
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            return True
        writer.transport.abort()
        return False

    await eventually(refused)
    assert (await stopping.slow.ask(REQUEST[-1:])).status == 200

    async def ended():
        return stopping._processes.pid("evaluator") is None

    async with asyncio.timeout(PATIENCE):
        await eventually(ended)
