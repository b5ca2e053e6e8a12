"""Gangs beside an unmodified scheduler: the real evaluator lifts gates, and kube-scheduler binds pods.

Each pod of a gang requests a core; a scenario sets the cores of the nodes.
"""

import itertools
import json
import random

import pytest

from sandbox.client.client import JSON_PATCH, STRATEGIC
from sandbox.client.objects import EVENTS, NODES, PODS

pytestmark = [pytest.mark.e2e, pytest.mark.features("gangs", "pages")]

GATE = {"name": "plimsoll.io/gang"}
FOREIGN = {"name": "example.com/quota"}
ADMITTED = "plimsoll.io/admitted-at"


def is_held(pod):
    return GATE in pod["spec"].get("schedulingGates", ())


def has_node(pod):
    return bool(pod["spec"].get("nodeName"))


class Site:
    """The cluster of one scenario, and its gangs."""

    def __init__(self, world, folder):
        self.world = world
        self.client = world.client
        self._folder = folder
        self.owner = None

    def scheduler(self):
        return self.world.plane.scheduler(self.world.evaluator.extender, self._folder)

    async def start(self, *flags):
        await self.world.start("--gangs", *flags)

    async def restart(self, *flags):
        await self.world.evaluator.stop(kill=True)
        await self.start(*flags)

    async def node(self, name, cores):
        full = await self.world.add_node(name)
        has = {"cpu": str(cores), "memory": "8Gi", "pods": "110"}
        status = {"status": {"capacity": has, "allocatable": has}}
        await self.client.patch(NODES, full, status, subresource="status", content_type=STRATEGIC)
        return await self.client.get(NODES, full)

    async def pod(self, name, group, minimum, *, priority=0, gates=(GATE,), owner=None):
        labels = {self.world.marks: self.world.suffix, "podGroup": group}
        labels |= {"minAvailable": str(minimum), "groupPriority": str(priority)}
        meta = {"name": name, "namespace": self.world.namespace, "labels": labels}
        if owner:
            about = {"uid": owner["metadata"]["uid"], "name": owner["metadata"]["name"]}
            reference = {"apiVersion": "v1", "kind": "Node", "controller": True, **about}
            meta["ownerReferences"] = [reference]
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        spec = {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {self.world.marks: self.world.suffix},
            "schedulingGates": list(gates),
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        return await self.client.create(PODS, body)

    async def gang(self, group, count, **more):
        for number in range(count):
            await self.pod(f"{group}-{number}", group, count, **more)

    async def remove(self, name):
        await self.client.delete(PODS, name, self.world.namespace, grace=0)

    async def get(self, name):
        return await self.client.get(PODS, name, self.world.namespace)

    async def pods(self, group):
        found = (
            await self.client.list(PODS, self.world.namespace, labels=f"podGroup={group}")
        ).items
        return {pod["metadata"]["name"]: pod for pod in found}

    async def placed(self, group):
        """The bound pods of a gang, by name."""
        return {name for name, pod in (await self.pods(group)).items() if has_node(pod)}

    async def held(self, group):
        """The pods with our gate."""
        return {name for name, pod in (await self.pods(group)).items() if is_held(pod)}

    async def all_placed(self, group, count):
        async def are():
            return len(await self.placed(group)) == count

        await self.eventually(are, f"all {count} of {group} have nodes")

    async def all_lifted(self, group):
        async def are():
            return not await self.held(group)

        await self.eventually(are, f"no pod of {group} is held")

    async def told(self, pod, reason, text=""):
        """Wait for an event on a pod."""
        selector = f"involvedObject.name={pod},reason={reason}"

        async def is_told():
            found = (await self.client.list(EVENTS, self.world.namespace, fields=selector)).items
            return [event for event in found if text in event["message"]]

        await self.eventually(is_told, f"{reason} is told of {pod}: {text}")

    async def explained(self, gang):
        """The /explain page of a gang once it is decided."""
        path = f"/explain?gang={self.world.namespace}/{gang}"

        async def is_told():
            status, text = await self.world.evaluator.get(path)
            told = json.loads(text) if status == 200 else {}
            return told if told.get("state") else None

        return await self.eventually(is_told, f"{gang} is explained")

    async def eventually(self, answer, what):
        try:
            return await self.world.eventually(answer)
        except TimeoutError:
            raise AssertionError(f"never: {what}{self.world.evaluator.log()}") from None


@pytest.fixture
def site(world, tmp_path):
    return Site(world, tmp_path)


async def test_gang_of_three_waits_for_its_third_pod_and_reports_so(site):
    await site.node("a", 4)
    await site.start()
    async with site.scheduler():
        for number in range(2):
            await site.pod(f"train-{number}", "train", 3)
        await site.told("train-0", "GangIncomplete", "2 of 3 pods of podGroup train exist")
        await site.told("train-1", "GangIncomplete", "2 of 3 pods of podGroup train exist")
        assert await site.held("train") == {"train-0", "train-1"}
        await site.pod("train-2", "train", 3)
        await site.all_placed("train", 3)
    pods = await site.pods("train")
    assert all(pod["metadata"]["annotations"][ADMITTED] for pod in pods.values())


async def test_two_gangs_that_fit_alone_run_whole_one_after_the_other(site):
    await site.node("a", 2)
    await site.node("b", 2)
    await site.gang("early", 3)
    await site.gang("late", 3)
    await site.start()
    async with site.scheduler():
        await site.all_placed("early", 3)
        await site.told("late-0", "GangWaitsForRoom")
        assert len(await site.held("late")) == 3
        for name in await site.placed("early"):
            await site.remove(name)
        await site.all_placed("late", 3)


async def test_gang_of_higher_priority_is_first_although_created_later(site):
    await site.node("a", 2)
    await site.gang("modest", 2)
    await site.gang("urgent", 2, priority=5)
    await site.start()
    async with site.scheduler():
        await site.all_placed("urgent", 2)
        await site.told("modest-1", "GangWaitsForRoom")
        assert len(await site.held("modest")) == 2


async def test_gangs_that_all_fit_are_released_in_order_after_binding(site):
    await site.node("a", 6)
    for priority, group in enumerate(("last", "middle", "first")):
        await site.gang(group, 2, priority=priority)
    await site.start()
    await site.all_lifted("first")
    await site.told("middle-0", "GangWaitsForTurn")
    assert len(await site.held("middle")) == 2
    async with site.scheduler():
        for group in ("first", "middle", "last"):
            await site.all_placed(group, 2)
    times = []
    for group in ("first", "middle", "last"):
        pods = (await site.pods(group)).values()
        times.append(sorted(pod["metadata"]["annotations"][ADMITTED] for pod in pods))
    assert times == sorted(times)
    assert all(earlier[-1] < later[0] for earlier, later in itertools.pairwise(times))


async def test_gang_that_can_never_fit_reports_so_and_blocks_no_other(site):
    await site.node("a", 2)
    await site.gang("huge", 3, priority=9)
    await site.start()
    async with site.scheduler():
        await site.told("huge-0", "GangTooLarge")
        await site.gang("small", 2)
        await site.all_placed("small", 2)
        assert len(await site.held("huge")) == 3


async def test_replacement_is_released_at_once_under_another_leader_too(site):
    owner = await site.node("a", 2)
    await site.start()
    async with site.scheduler():
        await site.gang("train", 2, owner=owner)
        await site.all_placed("train", 2)
        await site.gang("other", 2, priority=9)
        await site.told("other-0", "GangWaitsForRoom")
        await site.remove("train-0")
        await site.pod("train-2", "train", 2, owner=owner)
        await site.all_placed("train", 2)
        await site.restart()
        await site.remove("train-1")
        await site.pod("train-3", "train", 2, owner=owner)
        await site.all_placed("train", 2)
        assert len(await site.held("other")) == 2


async def test_gangs_are_never_half_placed_through_leader_changes(site):
    """Pods are created in any order and leaders are killed; succeeded gangs are deleted."""
    await site.node("a", 3)
    await site.node("b", 3)
    sizes = {"red": 4, "green": 3, "blue": 5, "grey": 2}
    pods = [(group, number) for group, size in sizes.items() for number in range(size)]
    random.Random(1).shuffle(pods)
    waiting = set(sizes)
    await site.start()

    async def some_are_whole():
        """The gangs that became bound since the last call; all pods are read at one revision."""
        found = (await site.client.list(PODS, site.world.namespace)).items
        half = set()
        for group, size in sizes.items():
            mine = [pod for pod in found if pod["metadata"]["labels"]["podGroup"] == group]
            if group in waiting and any(not is_held(pod) for pod in mine):
                assert len(mine) == size, f"{group} goes, and {len(mine)} exist"
            if 0 < sum(map(has_node, mine)) < size:
                half.add(group)
        assert len(half & waiting) <= 1, half
        whole = [pod["metadata"]["labels"]["podGroup"] for pod in found if has_node(pod)]
        return [group for group in waiting if whole.count(group) == sizes[group]]

    async with site.scheduler():
        for count, (group, number) in enumerate(pods):
            await site.pod(f"{group}-{number}", group, sizes[group])
            await some_are_whole()
            if count % 5 == 4:
                await site.restart()
        while waiting:
            for group in await site.eventually(some_are_whole, f"one of {waiting} is whole"):
                waiting.remove(group)
                for name in await site.pods(group):
                    await site.remove(name)


async def test_foreign_gates_are_waited_for_and_left_unchanged(site):
    await site.node("a", 2)
    await site.start()
    async with site.scheduler():
        await site.pod("train-0", "train", 2, gates=(GATE, FOREIGN))
        await site.pod("train-1", "train", 2, gates=(FOREIGN, GATE))
        await site.told("train-0", "GangGatedByOthers", FOREIGN["name"])
        assert await site.held("train") == {"train-0", "train-1"}
        for name, place in (("train-0", 1), ("train-1", 0)):
            path = f"/spec/schedulingGates/{place}"
            patch = [{"op": "test", "path": path, "value": FOREIGN}, {"op": "remove", "path": path}]
            await site.client.patch(
                PODS, name, patch, site.world.namespace, content_type=JSON_PATCH
            )
        await site.all_placed("train", 2)


async def test_unschedulable_gang_is_reported_after_the_timeout_and_the_next_goes(site):
    """Without a scheduler."""
    await site.node("a", 4)
    await site.gang("first", 2, priority=1)
    await site.gang("second", 2)
    await site.start("--gangTimeout=3s")
    await site.all_lifted("first")
    await site.told("second-0", "GangWaitsForTurn")
    assert len(await site.held("second")) == 2
    await site.told("first-0", "GangTimedOut")
    await site.all_lifted("second")
    assert not await site.placed("first") | await site.placed("second")


async def test_overdue_pod_is_released_with_a_warning(site):
    await site.node("a", 4)
    await site.start("--gangTimeout=1s", "--gateMaxAge=4s")
    async with site.scheduler():
        await site.pod("train-0", "train", 3)
        await site.all_placed("train", 1)
        await site.told("train-0", "GangOverdue", "--gateMaxAge")


async def test_each_gang_is_explained(site):
    await site.node("a", 4)
    await site.start()
    await site.pod("train-0", "train", 2)
    told = await site.explained("train")
    assert told["state"] == "Incomplete"
    assert told["message"] == "1 of 2 pods of podGroup train exist"
    assert told["members"]["train-0"]["state"] == "held"
