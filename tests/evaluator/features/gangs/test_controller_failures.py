"""The gang controller under leader changes, API failures and clocks set back."""

import asyncio
import itertools
import time

import pytest

from evaluator.core.kube.transport import KubeError
from evaluator.features.gangs.controller import UNLISTED
from evaluator.features.gangs.core.types import GangState
from plimsoll.pace import Pace
from tests.evaluator.features.gangs.replicas import PODS, another_decision, bind, free, going, known


@pytest.mark.parametrize("owned", [True, False])
async def test_new_leader_finishes_a_half_ungated_gang(api, replica, held, until, owned):
    one = await replica(leads=False)
    ungate_pods = one.kube.patch_pod

    async def once(*given):
        await ungate_pods(*given)
        one.fence.end()

    one.kube.patch_pod = once
    await held("train", "a", "b", "c", minimum=3, owned=owned)
    one.fence.extend()
    await free(api, "a")
    # A gang of higher priority was created meanwhile, and there would not be capacity for both.
    await held("rival", "r0", "r1", cpu="3", groupPriority="9")
    one.kill()
    other = await replica()
    await free(api, "a", "b", "c")
    assert other.sample("gang_releases_total", reason="replacement") == 1
    await until(lambda: other.state("rival") is not None)
    assert other.state("rival").waits


async def test_returning_leader_starts_without_old_state(api, replica, held, until):
    """Another replica may have led meanwhile: the pods are the truth."""
    one = await replica()
    await held("train", "a", "b")
    await free(api, "a", "b")
    one.fence.end()
    for name in "ab":
        await api.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
    await held("train", "c")
    one.fence.extend()
    await until(lambda: one.state("train") is GangState.INCOMPLETE)
    assert await going(api) == set()


async def test_former_leader_does_not_act_on_old_decisions(api, replica, held, until):
    one = await replica(leads=False, gate_max_age=1.0)
    ungate_pods, seen, listed = one.kube.patch_pod, [], asyncio.get_running_loop().create_future()

    async def losing(namespace, name, operations):
        await ungate_pods(namespace, name, operations)
        seen.append(name)
        if len(seen) == 1:
            one.gang_controller._list_anew = lambda: listed
            one.fence.end()
            one.fence.extend()

    one.kube.patch_pod = losing
    await held("one", "a")
    await held("two", "b")
    await until(lambda: len(known(one)) == 2)
    await until(lambda: all(pod.created + 1 <= time.time() for pod in known(one)))
    one.fence.extend()
    await until(lambda: seen and one.gang_controller._waited_for == (UNLISTED,))
    assert len(seen) == 1
    listed.set_result(None)
    await free(api, "a", "b")


async def test_decision_interrupted_by_a_leadership_change_is_dropped(api, replica, held, until):
    """The decision yields to the event loop, so anything may happen meanwhile."""
    one = await replica(leads=False, pace=Pace(slice=0.0))
    loop = asyncio.get_running_loop()
    capacity, listed = one.gang_controller._tracker.capacity, loop.create_future()

    def others_turn():
        one.gang_controller._list_anew = lambda: listed
        one.gang_controller._tracker.capacity = capacity
        one.fence.end()
        one.fence.extend()

    def looked():
        loop.call_soon(others_turn)
        return capacity()

    await held("train", "a", "b")
    await until(lambda: len(known(one)) == 2)
    one.gang_controller._tracker.capacity = looked
    one.fence.extend()
    await until(
        lambda: (
            one.gang_controller._waited_for == (UNLISTED,) and one.gang_controller._listed is listed
        )
    )
    assert one.gang_controller.decisions.verdicts == {}
    assert await going(api) == set()
    listed.set_result(None)
    await free(api, "a", "b")


async def test_rejected_gang_delays_no_other(api, replica, held, until):
    one = await replica(leads=False)
    ungate_pods = one.kube.patch_pod
    refused = True

    async def denied(namespace, name, operations):
        if refused and name.startswith("f"):
            raise KubeError(403, "admission webhook denied the request")
        await ungate_pods(namespace, name, operations)

    one.kube.patch_pod = denied
    await held("first", "f0", "f1", groupPriority="9")
    await held("second", "s0", "s1")
    one.fence.extend()
    await free(api, "s0", "s1")
    await until(lambda: one.state("first") is GangState.NOT_LIFTED)
    (message,) = [
        said.message
        for key, said in one.gang_controller.decisions.verdicts.items()
        if key.name == "first"
    ]
    assert "admission webhook denied the request" in message
    await bind(api, "s0", "s1")
    refused = False
    await free(api, "s0", "s1", "f0", "f1")


async def test_rejections_of_every_gang_are_retried_with_backoff(api, replica, held, until):
    """Each is retried separately, and there may be hundreds: rejected requests must not load the API server."""
    one, tried = await replica(leads=False), []

    async def denied(*_):
        tried.append(asyncio.get_running_loop().time())
        raise KubeError(403, "no right to patch pods")

    one.kube.patch_pod = denied
    for number in range(8):
        await held(f"g{number}", f"{number}-a", f"{number}-b")
    one.fence.extend()
    await until(lambda: len(tried) > 7)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried[:8])]
    assert pauses[-1] > 0.4


@pytest.mark.parametrize("status", [0, 429, 503])
async def test_unavailable_api_server_does_not_change_the_order(api, replica, held, until, status):
    one = await replica(leads=False)
    ungate_pods, failed = one.kube.patch_pod, []

    async def failing(*given):
        if not failed:
            failed.append(given)
            raise KubeError(status, "not now")
        await ungate_pods(*given)

    one.kube.patch_pod = failing
    await held("first", "f0", "f1", groupPriority="9")
    await held("second", "s0", "s1")
    one.fence.extend()
    await free(api, "f0", "f1")
    await until(lambda: one.state("second") is GangState.WAITS_FOR_TURN)


async def test_lost_response_is_detected(api, replica, held, until):
    """The gate was lifted without a response: the gang counts as admitted, and others wait for it."""
    one = await replica(leads=False)
    ungate_pods, lost = one.kube.patch_pod, []

    async def losing(*given):
        await ungate_pods(*given)
        if not lost:
            lost.append(given)
            raise KubeError(0, "the answer broke off")

    one.kube.patch_pod = losing
    await held("first", "f0", "f1", groupPriority="9")
    await held("second", "s0", "s1")
    one.fence.extend()
    await free(api, "f0", "f1")
    await until(lambda: one.state("first") is GangState.RELEASED)
    await another_decision(one)
    assert one.state("second") is GangState.WAITS_FOR_TURN
    assert await going(api) == {"f0", "f1"}
    await bind(api, "f0", "f1")
    await free(api, "f0", "f1", "s0", "s1")


async def test_watch_that_misses_own_writes_is_listed_again(api, replica, held, until):
    one = await replica(leads=False, patience=0.1)
    asked = []
    anew = one.pods.list_anew
    one.gang_controller._list_anew = lambda: asked.append(1) or anew()
    await held("train", "a", "b")
    await until(lambda: len(one.inventory.pods.objects) == 2)
    one.fence.extend()
    put = one.inventory.pods.put
    one.inventory.pods.put = lambda pod: None  # events are lost
    await free(api, "a", "b")
    await until(lambda: len(asked) == 2)
    one.inventory.pods.put = put
    one.pods.list_anew()
    await until(lambda: one.state("train") is GangState.RELEASED)


async def test_clock_set_back_delays_no_gang(api, replica, held, until):
    one = await replica(gang_timeout=0.3)
    await held("first", "f0", "f1")
    await free(api, "f0", "f1")
    one.gang_controller._clock = lambda: time.time() - 3600
    await held("second", "s0", "s1")
    await free(api, "f0", "f1", "s0", "s1")
