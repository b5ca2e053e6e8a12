"""The scorer `reward` in a whole evaluator: a failed pod changes scores, also after a restart."""

import asyncio
import contextlib
import json
import os
import re
import sys

import aiohttp
import pytest

from tests.patience import PATIENCE
from tests.tuned_evaluator import tuned

pytestmark = pytest.mark.e2e

FLAGS = (
    "--scorers=reward",
    "--syncPeriod=500ms",
    "--staleAfter=1s",
    "--leaderElect=false",
    "--unsafe",
    "--log.format=logfmt",
    "--bindAddress=127.0.0.1",
    "--agentPort=0",
    "--opsPort=0",
    "--port=0",
)


@pytest.fixture
async def scores(api, kubeconfig, tmp_path):
    """Run an evaluator within a context; it yields the scores of a pod of kind `web` by node."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    @contextlib.asynccontextmanager
    async def running():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", *tuned(agent_limits={"reconnect": 0.0}), *FLAGS),
            *("--kubeConfig", kubeconfig(api.url)),
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        try:
            port = await port_of(process)
            draining = asyncio.create_task(process.stderr.read())
            yield asker(port)
        finally:
            process.kill()
            await process.wait()
        await draining

    return running


async def port_of(process):
    """The URL of the extender."""
    async for line in process.stderr:
        if found := re.search(rb"server=extender address=\S*:(\d+)", line):
            return int(found[1])
    raise AssertionError("it ended")


def asker(port):
    url = f"http://127.0.0.1:{port}/scheduler/priorities/rl-priority"
    pod = {"metadata": {"name": "next", "namespace": "default", "labels": {"app": "web"}}}
    question = {"Pod": pod | {"spec": {"containers": []}}, "NodeNames": ["node-a", "node-b"]}

    async def until(wanted):
        """Repeat the request until this is the response."""
        answer = None
        async with aiohttp.ClientSession() as session:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    while answer != wanted:  # no watch reports it
                        await asyncio.sleep(0.05)
                        async with session.post(url, data=json.dumps(question)) as response:
                            if response.status == 200:
                                found = await response.json()
                                answer = {one["Host"]: one["Score"] for one in found}
        assert answer == wanted

    return until


async def test_reward_of_a_failure_survives_a_restart(api, scores):
    await api.policies()
    for name in ("node-a", "node-b"):
        await api.node(name)
    await api.pod("web-0", "node-a", policy="")
    status = "/api/v1/namespaces/default/pods/web-0/status"
    await api.merge(status, {"status": {"phase": "Running"}})
    async with scores() as until:
        await until({"node-a": 10, "node-b": 10})
        await api.merge(status, {"status": {"phase": "Failed"}})
        await until({"node-a": 9, "node-b": 10})
        async with asyncio.timeout(PATIENCE):
            while not await learned(api):  # noqa: ASYNC110 (no way to be told)
                await asyncio.sleep(0.05)
    async with scores() as until:
        await until({"node-a": 9, "node-b": 10})


async def learned(api):
    """Whether the ConfigMap contains the pod's kind."""
    found = (await api.get("/api/v1/namespaces/default/configmaps"))["items"]
    return any('"web"' in text for one in found for text in one["data"].values())
