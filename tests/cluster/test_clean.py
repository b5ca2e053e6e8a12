"""`plimsoll clean` removes from nodes what Plimsoll wrote, and nothing else."""

import asyncio
import re
import sys

import pytest

from sandbox.client.objects import LEASES, NODES, PODS
from tests import preloaded
from tests.patience import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.features("node_actions", "problems")]

FOREIGN = {"key": "example.com/gpu", "value": "x", "effect": "NoSchedule"}
EVERYTHING = {"plimsoll.io/actions": "label,taint,condition"}


def command(world, *flags):
    """The command as an administrator would run it for an evaluator of this scenario."""
    config = f"--kubeConfig={world.plane.kubeconfig}"
    where = f"--namespace={world.namespace}"
    return (sys.executable, "-P", "-m", "evaluator", "clean", config, where, *flags)


async def clean(world, *flags):
    """Run the command; return its lines about this scenario's nodes."""
    status, out, err = await preloaded.run(command(world, *flags))
    assert status == 0, err
    lines = [line for line in out.splitlines() if world.suffix in line.partition(":")[0]]
    return [line for line in lines if not line.startswith("policy ")]


async def violating(world, *flags):
    """Start an evaluator with a Lease in the scenario's namespace; return a node that it labelled, and the policy."""
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    world.fleet.say(node, health=2)
    await world.start("--leaderElect", f"--leaseNamespace={world.namespace}", *flags)
    await world.labelled(node, **{policy: "violating"})
    return node, policy


class Cleaning:
    """The command in the background, and what it has printed."""

    def __init__(self, world, folder, *flags):
        self._argv = command(world, *flags)
        self._out = folder / "clean.out"

    async def __aenter__(self):
        with self._out.open("wb") as out:
            self._process = await preloaded.start(
                self._argv, preloaded.processes.loopback_environment(), stdout=out, stderr=out
            )
        return self

    async def __aexit__(self, *_error):
        self._process.kill()
        await self._process.wait()

    def printed(self):
        return self._out.read_text()

    async def end(self):
        """The exit status."""
        return await asyncio.wait_for(self._process.wait(), PATIENCE)


async def test_everything_of_ours_is_removed_and_nothing_else(world):
    node, other = await world.add_node("a"), await world.add_node("b")
    await world.client.patch(NODES, node, {"spec": {"taints": [FOREIGN]}})
    before = await world.client.get(NODES, node)
    policy = await world.add_policy(
        "demo",
        deschedule=["health Equals 2"],
        annotations=EVERYTHING | {"plimsoll.io/condition-type": "example.com/Ill"},
    )
    world.fleet.say(node, health=2)
    world.fleet.say(other, health=0)
    await world.start(
        "--taints", "--conditions", "--conditionTypes=example.com/Ill", "--maxActedNodes=100%"
    )
    key = f"plimsoll.io/{world.namespace}.{policy}"

    async def acted_on():
        found = await world.client.get(NODES, node)
        return (
            any(taint["key"] == key for taint in found["spec"]["taints"])
            and any(c["type"] == "example.com/Ill" for c in found["status"]["conditions"])
            and found["metadata"]["labels"].get(policy) == "violating"
        )

    await world.eventually(acted_on)
    await world.evaluator.stop(kill=True)
    found = await world.client.get(NODES, node)
    assert await clean(world, "--dry-run") == [
        f"{node}: would remove condition example.com/Ill; taint {key}; label {policy}"
    ]
    assert await world.client.get(NODES, node) == found
    assert await clean(world, "--no-wait") == [
        f"{node}: removed condition example.com/Ill; taint {key}; label {policy}"
    ]
    after = await world.client.get(NODES, node)
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert await clean(world, "--no-wait") == []


async def test_running_leader_is_waited_for_until_it_releases_its_lease(world, tmp_path):
    node, policy = await violating(world)
    async with Cleaning(world, tmp_path) as cleaning:
        await world.eventually(lambda: "waiting: " in cleaning.printed())
        assert re.search(
            rf"waiting: \S+ holds the Lease {world.namespace}/plimsoll-evaluator\n",
            cleaning.printed(),
        )
        assert await world.labels(node) == {policy: "violating"}
        await world.evaluator.stop()
        assert await cleaning.end() == 0, cleaning.printed()
    assert await world.labels(node) == {}


async def test_lease_of_a_killed_leader_is_waited_for_until_it_expires(world, tmp_path):
    node, _ = await violating(world, "--leaseDuration=3s", "--renewDeadline=2s", "--retryPeriod=1s")
    await world.evaluator.stop(kill=True)
    async with Cleaning(world, tmp_path) as cleaning:
        assert await cleaning.end() == 0, cleaning.printed()
        assert "holds the Lease" in cleaning.printed()
    assert await world.labels(node) == {}


async def test_running_leader_after_the_timeout_is_an_error_and_nothing_is_removed(world):
    node, policy = await violating(world)
    status, out, err = await preloaded.run(command(world, "--timeout=1s"))
    assert status == 1
    assert re.search(
        rf"nothing was removed: \S+ holds the Lease {world.namespace}/plimsoll-evaluator after 1 s; scale the evaluator", err
    )  # fmt: skip
    assert out == "removed something on 0 nodes\n"
    assert await world.labels(node) == {policy: "violating"}


async def test_pod_that_takes_its_time_to_end_is_waited_for(world, tmp_path):
    """Its Lease is released already: a pod that has not ended may acquire it again."""
    node, policy = await violating(world)
    await world.evaluator.stop()
    pod = await world.add_pod("evaluator", node=node, terminationGracePeriodSeconds=30)
    name = pod["metadata"]["name"]
    label = {"metadata": {"labels": {"app.kubernetes.io/name": "plimsoll-evaluator"}}}
    await world.client.patch(PODS, name, label, world.namespace)
    await world.client.delete(PODS, name, world.namespace)
    async with Cleaning(world, tmp_path) as cleaning:
        await world.eventually(
            lambda: f"waiting: pod {name} is terminating\n" in cleaning.printed()
        )
        assert await world.labels(node) == {policy: "violating"}
        await world.client.delete(PODS, name, world.namespace, grace=0)
        assert await cleaning.end() == 0, cleaning.printed()
    assert await world.labels(node) == {}


async def test_without_a_lease_the_command_says_what_to_name(world):
    node, policy = await violating(world)
    await world.evaluator.stop()
    await world.client.delete(LEASES, "plimsoll-evaluator", world.namespace)
    status, _, err = await preloaded.run(command(world))
    assert status == 1
    assert f"there is no Lease {world.namespace}/plimsoll-evaluator" in err
    assert "--namespace and --leaseName, or use --no-wait" in err
    assert await world.labels(node) == {policy: "violating"}
