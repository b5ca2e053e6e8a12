"""The commands of docs/quickstart-kind.md that need no container work with the real kube-scheduler."""

import asyncio
import os
import re
import shutil
from pathlib import Path

import pytest

from sandbox.client.objects import PODS
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.features("requeue"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH"),
]

PAGE = Path(__file__).parents[2] / "docs" / "quickstart-kind.md"
BLOCK = re.compile(r"<!-- tested: tests/cluster/test_quickstart.py -->\n```sh\n(.*?)```", re.DOTALL)
NODES = ("plimsoll-control-plane", "plimsoll-worker2", "plimsoll-worker")


async def test_commands_of_the_quickstart_work(world, tmp_path):
    """A node marked unhealthy gets no new pods; a pod without a healthy node waits until one recovers."""
    names = {written: await world.add_node(written) for written in NODES}
    for name in names.values():
        world.fleet.say(name)
    folder = tmp_path / "marks"
    folder.mkdir()
    # In place of `docker exec`: a file for each node, which becomes the reading of a simulated agent.
    head = f'mark() {{ echo "$2" > {folder}/new && mv {folder}/new "{folder}/$1"; }}\n'
    head += f'kubectl() {{ command kubectl -n {world.namespace} "$@" $([ "$1" = apply ] && echo --validate=ignore); }}\n'
    text = "".join(BLOCK.findall(PAGE.read_text()))
    for written, name in names.items():
        text = re.sub(rf"(mark ){written}\b(?!\d)", rf"\1{name}", text)
    await world.start()
    async with world.plane.scheduler(world.evaluator.extender, tmp_path):
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", head + text),
            env={**os.environ, "KUBECONFIG": str(world.plane.kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        following = asyncio.create_task(follow(world, folder))
        out, _ = await asyncio.wait_for(process.communicate(), 4 * PATIENCE)
        following.cancel()
    assert process.returncode == 0, out.decode() + world.evaluator.log()
    placed = {}
    for name in ("first", "second", "third", "fourth"):
        placed[name] = (await world.client.get(PODS, name, world.namespace))["spec"]["nodeName"]
    sick, well = names["plimsoll-worker"], {names["plimsoll-worker2"], names[NODES[0]]}
    assert {placed["second"], placed["third"]} <= well
    assert placed["fourth"] == sick
    assert b"health_metric" in out  # the message of the waiting pod names the rule


async def follow(world, folder):
    """Give each mark to the agent of its node."""
    while True:
        for path in folder.iterdir():
            if path.name != "new":
                world.fleet.say(path.name, health_metric=int(path.read_text()))
                path.unlink()
        await asyncio.sleep(0.02)
