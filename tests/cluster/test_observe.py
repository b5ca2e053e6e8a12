"""A policy is observed first: its status shows what enforcement would change, then one edit enforces it."""

import asyncio

import pytest

from sandbox.client.client import ApiError
from sandbox.client.objects import EVENTS, NODES, PODS, POLICIES

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "node_actions")]

ANNOTATION = "plimsoll.io/enforcement"


@pytest.fixture
async def nodes(world):
    sick, well = await world.add_node("sick"), await world.add_node("well")
    world.fleet.say(sick, health=2)
    world.fleet.say(well, health=0)
    return sick, well


def enforced(status):
    found = [one for one in status.get("conditions", ()) if one["type"] == "Enforced"]
    return found[0] if found else {"status": "", "message": ""}


async def switch(world, policy, mode):
    """Edit the annotation with kubectl; not blocking, since the sandbox's API server runs in this process."""
    where = (f"--kubeconfig={world.plane.kubeconfig}", f"--namespace={world.namespace}")
    edit = ("annotate", "--overwrite", "taspolicy", policy, f"{ANNOTATION}={mode}")
    program = await asyncio.create_subprocess_exec("kubectl", *where, *edit)
    assert await program.wait() == 0


async def refused(world, policy, nodes):
    labels = {"telemetry-policy": policy}
    pod = {"metadata": {"name": "web", "namespace": world.namespace, "labels": labels}}
    return set((await world.evaluator.filter({**pod, "spec": {}}, nodes))["FailedNodes"] or ())


async def leaves(world, pod):
    async def gone():
        try:
            found = await world.client.get(PODS, pod, world.namespace)
        except ApiError as error:
            return error.status == 404
        return "deletionTimestamp" in found["metadata"]

    await world.eventually(gone)


async def test_observed_policy_changes_nothing_until_one_edit_enforces_it(world, nodes):
    sick = nodes[0]
    policy = world.name("demo")
    rules = {"dontschedule": ["health Equals 2"], "deschedule": ["health Equals 2"]}
    await world.add_policy("demo", **rules, annotations={ANNOTATION: "observe"})
    await world.add_pod("web", policy, sick)
    await world.start("--evict")
    found = await world.status(policy, lambda status: "evict" in enforced(status)["message"])
    assert enforced(found)["message"] == (
        f"only observed, by the annotation {ANNOTATION}; would refuse new pods on 1 of 2 nodes ({sick}); "
        f"label 1 of 2 nodes ({sick}); evict 1 pod ({world.namespace}/web)"
    )
    assert (found["compliance"], found["enforcement"]) == ("Violated", "Observe")
    assert await refused(world, policy, nodes) == set()
    assert await world.labels(sick) == {}
    assert (
        "deletionTimestamp"
        not in (await world.client.get(PODS, "web", world.namespace))["metadata"]
    )
    of = f'namespace="{world.namespace}",policy="{policy}",strategy="deschedule"'
    violating = f'plimsoll_policy_violating_nodes{{mode="observe",{of}}}'
    assert await world.evaluator.metric(violating) == 1

    await switch(world, policy, "enforce")
    await world.labelled(sick, **{policy: "violating"})
    await leaves(world, "web")
    assert await refused(world, policy, nodes) == {sick}
    found = await world.status(policy, lambda status: enforced(status)["status"] == "True")
    assert f"its labels are taken off 1 of 2 nodes ({sick})" in enforced(found)["message"]

    await switch(world, policy, "observe")
    await world.labelled(sick)
    assert await refused(world, policy, nodes) == set()


async def test_flag_observes_all_policies_and_takes_off_labels_set_before(world, nodes):
    sick = nodes[0]
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    await world.start()
    await world.labelled(sick, **{policy: "violating"})
    await world.evaluator.stop()
    await world.start("--observe")
    await world.labelled(sick)
    found = await world.status(policy, lambda status: enforced(status)["status"] == "False")
    assert enforced(found)["message"].startswith("only observed, by --observe; would label 1 of 2")


async def test_unknown_mode_is_an_error_in_the_status_and_observes(world, nodes):
    sick = nodes[0]
    policy = await world.add_policy(
        "demo", deschedule=["health Equals 2"], annotations={ANNOTATION: "of"}
    )
    await world.start()
    found = await world.status(policy, lambda status: enforced(status)["status"] == "False")
    (valid,) = (one for one in found["conditions"] if one["type"] == "Valid")
    assert valid["message"].startswith(f"annotation {ANNOTATION}: 'of' is neither enforce nor")
    assert await world.labels(sick) == {}


async def test_event_of_an_observed_policy_is_written_once_and_says_so(world):
    policy = await world.add_policy(
        "demo", deschedule=["health Equals 2"], annotations={ANNOTATION: "observe"}
    )
    world.fleet.say(await world.add_node("sick"), health=2)
    await world.start()

    async def events():
        found = (await world.client.list(EVENTS, world.namespace)).items
        return [one["message"] for one in found if one["involvedObject"]["name"] == policy]

    said = await world.eventually(events)
    assert said == [
        "deschedule is violated (only observed): the condition DescheduleViolated names the nodes"
    ]
    obj = await world.client.get(POLICIES, policy, world.namespace)
    assert obj["metadata"]["annotations"] == {ANNOTATION: "observe"}


async def test_observed_policy_taints_no_node_and_its_taint_is_taken_off(world, nodes):
    sick = nodes[0]
    annotations = {ANNOTATION: "observe", "plimsoll.io/actions": "taint"}
    policy = await world.add_policy(
        "demo", dontschedule=["health Equals 2"], annotations=annotations
    )
    await world.start("--taints")

    async def tainted():
        found = (await world.client.get(NODES, sick))["spec"].get("taints") or []
        return [one["key"] for one in found if world.suffix in one["key"]]

    async def not_tainted():
        return not await tainted()

    found = await world.status(policy, lambda status: "taint" in enforced(status)["message"])
    assert f"taint 1 of 2 nodes ({sick}) with PreferNoSchedule" in enforced(found)["message"]
    assert await not_tainted()
    await switch(world, policy, "enforce")
    await world.eventually(tainted)
    await switch(world, policy, "observe")
    await world.eventually(not_tainted)


@pytest.mark.features("requeue")
async def test_rejected_pod_is_scheduled_once_its_policy_is_only_observed(world, nodes, tmp_path):
    """kube-scheduler itself would retry after minutes."""
    sick = nodes[0]
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"])
    await world.start()
    async with world.plane.scheduler(world.evaluator.extender, tmp_path):
        await world.add_pod("web", policy, nodeSelector={"kubernetes.io/hostname": sick})

        async def pod():
            return await world.client.get(PODS, "web", world.namespace)

        async def rejected():
            conditions = (await pod())["status"].get("conditions", ())
            return any(f"violating {policy}" in one.get("message", "") for one in conditions)

        async def bound():
            return (await pod())["spec"].get("nodeName") == sick

        await world.eventually(rejected)
        await switch(world, policy, "observe")
        await world.eventually(bound)
