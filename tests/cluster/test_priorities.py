"""A pod's priority comes from its PriorityClass, in the sandbox as in a real cluster."""

import pytest

from sandbox.client.client import ApiError
from sandbox.client.objects import PODS, ObjectKind

pytestmark = pytest.mark.e2e

CLASSES = ObjectKind("priorityclasses", "scheduling.k8s.io/v1", namespaced=False)


@pytest.fixture
async def classes(world):
    """Two priority classes of the scenario; returns their names."""
    names = {one: world.name(one) for one in ("high", "modest")}
    for short, rest in (
        ("high", {"value": 1000}),
        ("modest", {"value": -5, "preemptionPolicy": "Never"}),
    ):
        body = {
            "apiVersion": CLASSES.api_version,
            "kind": "PriorityClass",
            "metadata": {"name": names[short]},
            **rest,
        }
        await world.client.create(CLASSES, body)
    yield names
    for name in names.values():
        await world.client.delete(CLASSES, name)


@pytest.mark.parametrize(
    ("short", "given", "wanted"),
    [
        ("", {}, (0, "PreemptLowerPriority")),
        ("", {"priority": 0}, (0, "PreemptLowerPriority")),
        ("high", {}, (1000, "PreemptLowerPriority")),
        ("high", {"priority": 1000}, (1000, "PreemptLowerPriority")),
        ("modest", {}, (-5, "Never")),
    ],
)
async def test_pod_has_the_priority_of_its_class(world, classes, short, given, wanted):
    named = {"priorityClassName": classes[short]} if short else {}
    spec = (await world.add_pod("web", **named, **given))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == wanted


async def test_update_without_a_priority_keeps_it(world, classes):
    pod = await world.add_pod("web", priorityClassName=classes["high"])
    del pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]
    pod["metadata"]["labels"]["new"] = "one"
    spec = (await world.client.update(PODS, pod))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "PreemptLowerPriority")


async def test_system_classes_exist(world):
    pod = await world.add_pod("web", priorityClassName="system-node-critical")
    assert pod["spec"]["priority"] == 2_000_001_000


@pytest.mark.parametrize(
    ("short", "given", "why"),
    [
        ("", {"priority": 7}, "priority (7) must not be provided in pod spec; priority admission"),
        ("high", {"priority": 5}, "admission controller computed 1000 from the given Priority"),
        ("high", {"preemptionPolicy": "Never"}, "PreemptionPolicy (Never) must not be provided"),
        ("", {"priorityClassName": "nobody"}, "no PriorityClass with name nobody was found"),
    ],
)
async def test_other_priorities_are_rejected(world, classes, short, given, why):
    named = {"priorityClassName": classes[short]} if short else {}
    with pytest.raises(ApiError) as refused:
        await world.add_pod("web", **named, **given)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert why in refused.value.message
