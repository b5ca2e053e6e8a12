"""The loop that decides on gangs, on a real API server: who goes, who decides, and what becomes of it when things fail between."""

import asyncio
import itertools
import time
from types import SimpleNamespace

import pytest

from evaluator import cluster, inventory
from evaluator.cluster import Cluster
from evaluator.decisions import Decision, Decisions
from evaluator.gangs import gatekeeper
from evaluator.gangs.assembly import Gangs
from evaluator.gangs.gatekeeper import ANOTHER, UNLISTED
from evaluator.gangs.group import GangKey
from evaluator.gangs.membership import ADMITTED, GATE
from evaluator.gangs.options import GangOptions
from evaluator.gangs.verdicts import State
from evaluator.inventory import Inventory
from evaluator.kube import ALL_PODS, NODES, KubeError
from evaluator.mandate import Mandate
from evaluator.metrics import Metrics
from evaluator.policy import Policy, PolicyKey
from evaluator.rules import View
from evaluator.watcher import Watcher

PODS = "/api/v1/namespaces/default/pods"
TRAIN = GangKey("default", "train")
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}


class Replica:
    """What one evaluator has of gangs, fed by watchers of its own. `decided` stands for the decisions on policies."""

    def __init__(self, kube, rng, background, **options):
        self.kube = kube
        self.metrics = Metrics()
        self.decided = SimpleNamespace(latest=Decisions(), waiting_for=[], listeners=[])
        self.mandate = Mandate()
        kube.guard = self.mandate.write
        self.cluster = Cluster()
        self.inventory = Inventory(clock=lambda: 0.0, wall=lambda: 0.0)
        self.pods = Watcher(kube, ALL_PODS, inventory.decode, self.inventory.pods, rng=rng)
        nodes = Watcher(kube, NODES, cluster.decode_node, self.cluster.nodes, rng=rng)
        self.gangs = Gangs(
            GangOptions(gangs=True, **options),
            kube,
            self.cluster,
            self.decided,
            self.metrics,
            inventory=self.inventory,
            mandate=self.mandate,
            list_anew=self.pods.list_anew,
        )
        self.gatekeeper = self.gangs.gatekeeper
        loops = (self.pods.run(), nodes.run(), *self.gangs.loops())
        self.loops = [background(loop) for loop in loops]

    def kill(self):
        for loop in self.loops:
            loop.cancel()

    def state(self, name):
        """How a gang stands, by name; None where nothing is known of it."""
        verdicts = self.gatekeeper.outcome.verdicts
        return next((said.state for key, said in verdicts.items() if key.name == name), None)

    def sample(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"plimsoll_{name}", labels)


@pytest.fixture
async def replica(api, connect, rng, background):
    """Starts a replica beside a node of 8 cores; it may write at once, unless it is told otherwise."""
    await node(api, "node-a")

    async def start(*, leads=True, **options):
        made = Replica(await connect(api.url), rng, background, **options)
        if leads:
            made.mandate.extend()
        return made

    return start


async def node(api, name):
    await api.node(name)
    await api.merge(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": ROOM}})


@pytest.fixture
def held(api):
    """Pods of a gang, each with our gate and a core to ask for; of one controller, unless it is told otherwise."""
    path, made = "/api/v1/namespaces/default/configmaps", {}

    async def make(group, *names, minimum=2, gates=(GATE,), cpu="1", owned=True, **labels):
        if owned and not made:  # what it is does not matter, but that it is there
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "job"}}
            made["uid"] = (await api.call("POST", path, body))["metadata"]["uid"]
        controller = {"apiVersion": "v1", "kind": "ConfigMap", "name": "job", "controller": True}
        for name in names:
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "labels": {"podGroup": group, "minAvailable": str(minimum), **labels},
                    "ownerReferences": [{**controller, **made}] if owned else [],
                },
                "spec": {
                    "schedulingGates": [{"name": gate} for gate in gates],
                    "containers": [
                        {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
                    ],
                },
            }
            await api.call("POST", PODS, body)

    return make


async def pods(api):
    return {pod["metadata"]["name"]: pod for pod in (await api.get(PODS))["items"]}


def gates(pod):
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


async def going(api):
    """Those whose gate is lifted."""
    return {name for name, pod in (await pods(api)).items() if GATE not in gates(pod)}


async def free(api, *names):
    """Wait until just these are; one more would be seen with the last of them, or soon after."""
    async with asyncio.timeout(10):
        while await going(api) != set(names):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def another_decision(replica):
    """On what is known by now, and all done that follows from it."""
    for _ in range(2):  # one may be under way
        told = asyncio.Event()
        replica.gatekeeper.listeners.append(told.set)
        replica.gatekeeper.wake()
        async with asyncio.timeout(10):
            await told.wait()


async def bind(api, *names, to="node-a"):
    for name in names:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": to},
        }
        await api.call("POST", f"{PODS}/{name}/binding", body)


async def test_a_gang_waits_for_its_last_pod_and_goes_whole(api, replica, held, until):
    one = await replica()
    await held("train", "a")
    await until(lambda: one.state("train") is State.INCOMPLETE)
    assert await going(api) == set()
    assert one.sample("gangs", state="Incomplete") == 1
    assert one.sample("gang_pods_gated") == 1
    await held("train", "b")
    await free(api, "a", "b")
    for pod in (await pods(api)).values():
        assert pod["metadata"]["annotations"][ADMITTED]
    await until(lambda: one.state("train") is State.RELEASED)
    assert one.sample("gang_releases_total", reason="admitted") == 1
    assert one.sample("gang_gates_lifted_total", result="ok") == 2
    assert one.sample("gang_wait_seconds_count") == 1
    assert one.sample("gang_pods_gated") == 0
    await bind(api, "a", "b")
    await until(lambda: one.state("train") is State.SCHEDULED)


async def test_gates_of_others_stay(api, replica, held):
    await replica()
    await held("train", "a", "b")
    await held("train", "c", gates=("a.io/first", GATE, "b.io/last"))
    await free(api, "a", "b")
    patch = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    await api.call("PATCH", f"{PODS}/c", patch, "application/json-patch+json")
    patch = [{"op": "remove", "path": "/spec/schedulingGates/1"}]
    await api.call("PATCH", f"{PODS}/c", patch, "application/json-patch+json")
    await free(api, "a", "b", "c")


async def test_one_gang_goes_after_the_other_by_importance(api, replica, held, until):
    one = await replica(leads=False)
    await held("later", "l0", "l1")
    await held("first", "f0", "f1", groupPriority="9")
    one.mandate.extend()
    await free(api, "f0", "f1")
    await until(lambda: one.state("later") is State.WAITS_FOR_TURN)
    assert one.sample("gang_oldest_wait_seconds") > 0
    await bind(api, "f0", "f1")
    await free(api, "f0", "f1", "l0", "l1")


async def test_what_fits_goes_past_what_does_not(api, replica, held, until):
    one = await replica(leads=False)
    await held("large", "l0", "l1", cpu="5", groupPriority="9")
    await held("huge", "h0", "h1", cpu="9", groupPriority="8")
    await held("small", "s0", "s1")
    one.mandate.extend()
    await free(api, "s0", "s1")
    await until(lambda: one.state("small") is State.RELEASED)
    await bind(api, "s0", "s1")
    await until(lambda: one.state("large") is State.TOO_LARGE)
    assert one.state("huge") is State.TOO_LARGE
    await node(api, "node-b")
    await free(api, "s0", "s1", "l0", "l1")


async def test_a_node_that_its_policy_keeps_it_off_has_no_room(api, replica, held, until):
    one = await replica(leads=False)
    key = PolicyKey("default", "demo")
    refused = Decision(Policy(key), dontschedule={"node-a": "too hot"})
    one.decided.latest = Decisions(View(("node-a",), {}), {key: refused})
    await held("train", "a", "b", **{"telemetry-policy": "demo"})
    one.mandate.extend()
    await until(lambda: one.state("train") is not None)
    assert one.state("train").waits
    one.decided.latest = Decisions(View(("node-a",), {}), {key: Decision(Policy(key))})
    for tell in one.decided.listeners:
        tell()
    await free(api, "a", "b")


async def test_only_the_one_that_may_write_decides(api, replica, held, until):
    one, other = await replica(leads=False), await replica()
    assert one.gatekeeper.waiting_for == (ANOTHER,)
    await held("train", "a", "b")
    await free(api, "a", "b")
    await until(lambda: other.state("train") is State.RELEASED)
    assert one.gatekeeper.outcome.verdicts == {}
    assert one.sample("gangs", state="Released") == 0
    assert one.sample("gang_releases_total", reason="admitted") is None


async def test_nothing_is_decided_on_what_is_stale(api, replica, held, until):
    one = await replica(leads=False)
    one.decided.waiting_for = ["news of nodes"]
    await held("train", "a", "b")
    one.mandate.extend()
    await until(lambda: len(one.inventory.pods.objects) == 2)
    await until(lambda: list(one.gatekeeper.waiting_for) == ["news of nodes"])
    one.gatekeeper.wake()
    await until(lambda: not one.gatekeeper._wake.is_set())
    assert await going(api) == set()
    one.decided.waiting_for = []
    for tell in one.decided.listeners:
        tell()
    await free(api, "a", "b")


async def test_nothing_is_decided_before_a_list_that_began_later(api, replica, held, until):
    """What a leader saw before it became one may be old: another one has written meanwhile."""
    one = await replica(leads=False)
    await held("train", "a", "b")
    await until(lambda: len(one.inventory.pods.objects) == 2)
    asked, tell = [], asyncio.get_running_loop().create_future()
    one.gatekeeper._list_anew = lambda: asked.append(1) or tell
    one.mandate.extend()
    await until(lambda: asked)
    one.gatekeeper.wake()
    await until(lambda: not one.gatekeeper._wake.is_set())
    assert one.gatekeeper.waiting_for == (UNLISTED,)
    assert await going(api) == set()
    tell.set_result(None)
    await free(api, "a", "b")


async def test_a_replacement_goes_at_once_though_others_wait(api, replica, held, until):
    one = await replica()
    await held("train", "a", "b")
    await free(api, "a", "b")
    await bind(api, "a", "b")
    await held("large", "l0", "l1", cpu="7", groupPriority="9")
    await until(lambda: one.state("large") is not None)
    await api.call("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    await held("train", "c")
    await free(api, "b", "c")
    await until(lambda: one.sample("gang_releases_total", reason="replacement") == 1)


@pytest.mark.parametrize("owned", [True, False])
async def test_who_takes_over_in_the_middle_of_a_gang_finishes_it(api, replica, held, until, owned):
    one = await replica(leads=False)
    lift = one.kube.patch_pod

    async def once(*given):
        await lift(*given)
        one.mandate.end()

    one.kube.patch_pod = once
    await held("train", "a", "b", "c", minimum=3, owned=owned)
    one.mandate.extend()
    await free(api, "a")
    # What is more important came meanwhile, and there would be no room for both.
    await held("rival", "r0", "r1", cpu="3", groupPriority="9")
    one.kill()
    other = await replica()
    await free(api, "a", "b", "c")
    assert other.sample("gang_releases_total", reason="replacement") == 1
    await until(lambda: other.state("rival") is not None)
    assert other.state("rival").waits


async def test_a_leader_that_comes_back_has_forgotten_what_it_knew(api, replica, held, until):
    """Another one may have led meanwhile: what is so, pods tell."""
    one = await replica()
    await held("train", "a", "b")
    await free(api, "a", "b")
    one.mandate.end()
    for name in "ab":
        await api.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
    await held("train", "c")
    one.mandate.extend()
    await until(lambda: one.state("train") is State.INCOMPLETE)
    assert await going(api) == set()


async def test_a_leader_that_was_another_meanwhile_acts_on_nothing_it_decided_before(
    api, replica, held, until
):
    one = await replica(leads=False, gate_max_age=1.0)
    lift, seen, listed = one.kube.patch_pod, [], asyncio.get_running_loop().create_future()

    async def losing(namespace, name, operations):
        await lift(namespace, name, operations)
        seen.append(name)
        if len(seen) == 1:
            one.gatekeeper._list_anew = lambda: listed
            one.mandate.end()
            one.mandate.extend()

    one.kube.patch_pod = losing
    await held("one", "a")
    await held("two", "b")
    await until(lambda: len(known(one)) == 2)
    await until(lambda: all(pod.created + 1 <= time.time() for pod in known(one)))
    one.mandate.extend()
    await until(lambda: seen and one.gatekeeper._waited_for == (UNLISTED,))
    assert len(seen) == 1
    listed.set_result(None)
    await free(api, "a", "b")


async def test_a_decision_that_was_under_way_when_another_led_comes_to_nothing(
    api, replica, held, until, monkeypatch
):
    """It gives way to others, in which time anything may happen."""
    monkeypatch.setattr(gatekeeper, "_SLICE", 0.0)
    one = await replica(leads=False)
    loop = asyncio.get_running_loop()
    space, listed = one.gatekeeper._rooms.space, loop.create_future()

    def others_turn():
        one.gatekeeper._list_anew = lambda: listed
        one.gatekeeper._rooms.space = space
        one.mandate.end()
        one.mandate.extend()

    def looked():
        loop.call_soon(others_turn)
        return space()

    await held("train", "a", "b")
    await until(lambda: len(known(one)) == 2)
    one.gatekeeper._rooms.space = looked
    one.mandate.extend()
    await until(
        lambda: one.gatekeeper._waited_for == (UNLISTED,) and one.gatekeeper._listed is listed
    )
    assert one.gatekeeper.outcome.verdicts == {}
    assert await going(api) == set()
    listed.set_result(None)
    await free(api, "a", "b")


def known(replica):
    return replica.inventory.pods.objects.values()


async def test_a_gang_that_is_refused_keeps_nobody_waiting(api, replica, held, until):
    one = await replica(leads=False)
    lift = one.kube.patch_pod
    refused = True

    async def denied(namespace, name, operations):
        if refused and name.startswith("f"):
            raise KubeError(403, "admission webhook denied the request")
        await lift(namespace, name, operations)

    one.kube.patch_pod = denied
    await held("first", "f0", "f1", groupPriority="9")
    await held("second", "s0", "s1")
    one.mandate.extend()
    await free(api, "s0", "s1")
    await until(lambda: one.state("first") is State.NOT_LIFTED)
    (message,) = [
        said.message for key, said in one.gatekeeper.outcome.verdicts.items() if key.name == "first"
    ]
    assert "admission webhook denied the request" in message
    await bind(api, "s0", "s1")
    refused = False
    await free(api, "s0", "s1", "f0", "f1")


async def test_where_every_gang_is_refused_it_is_asked_ever_more_slowly(api, replica, held, until):
    """Each is tried again by itself, and there may be hundreds: they must not keep the API server busy saying no."""
    one, tried = await replica(leads=False), []

    async def denied(*_):
        tried.append(asyncio.get_running_loop().time())
        raise KubeError(403, "no right to patch pods")

    one.kube.patch_pod = denied
    for number in range(8):
        await held(f"g{number}", f"{number}-a", f"{number}-b")
    one.mandate.extend()
    await until(lambda: len(tried) > 7)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried[:8])]
    assert pauses[-1] > 0.4


@pytest.mark.parametrize("status", [0, 429, 503])
async def test_a_server_that_serves_nobody_changes_no_order(api, replica, held, until, status):
    one = await replica(leads=False)
    lift, failed = one.kube.patch_pod, []

    async def failing(*given):
        if not failed:
            failed.append(given)
            raise KubeError(status, "not now")
        await lift(*given)

    one.kube.patch_pod = failing
    await held("first", "f0", "f1", groupPriority="9")
    await held("second", "s0", "s1")
    one.mandate.extend()
    await free(api, "f0", "f1")
    await until(lambda: one.state("second") is State.WAITS_FOR_TURN)


async def test_an_answer_that_got_lost_is_found_out(api, replica, held, until):
    """The gate was lifted, and nobody said so: the gang is admitted all the same, and the others wait for it."""
    one = await replica(leads=False)
    lift, lost = one.kube.patch_pod, []

    async def losing(*given):
        await lift(*given)
        if not lost:
            lost.append(given)
            raise KubeError(0, "the answer broke off")

    one.kube.patch_pod = losing
    await held("first", "f0", "f1", groupPriority="9")
    await held("second", "s0", "s1")
    one.mandate.extend()
    await free(api, "f0", "f1")
    await until(lambda: one.state("first") is State.RELEASED)
    await another_decision(one)
    assert one.state("second") is State.WAITS_FOR_TURN
    assert await going(api) == {"f0", "f1"}
    await bind(api, "f0", "f1")
    await free(api, "f0", "f1", "s0", "s1")


async def test_a_pod_that_was_held_for_too_long_is_let_through_with_a_warning(
    api, replica, held, until
):
    one = await replica(gate_max_age=1.0)
    await held("train", "a")
    await free(api, "a")
    assert one.sample("gang_releases_total", reason="overdue") == 1
    path = "/api/v1/namespaces/default/events"
    await api.seen(path, lambda found: "GangOverdue" in {one["reason"] for one in found["items"]})


async def test_a_watch_that_does_not_tell_of_our_own_writes_is_not_believed(
    api, replica, held, until
):
    one = await replica(leads=False)
    one.gatekeeper._patience = 0.1
    asked = []
    anew = one.pods.list_anew
    one.gatekeeper._list_anew = lambda: asked.append(1) or anew()
    await held("train", "a", "b")
    await until(lambda: len(one.inventory.pods.objects) == 2)
    one.mandate.extend()
    put = one.inventory.pods.put
    one.inventory.pods.put = lambda pod: None  # news are lost
    await free(api, "a", "b")
    await until(lambda: len(asked) == 2)
    one.inventory.pods.put = put
    one.pods.list_anew()
    await until(lambda: one.state("train") is State.RELEASED)


async def test_what_comes_to_nothing_in_time_is_counted(api, replica, held, until):
    one = await replica(gang_timeout=0.3, gang_backoff=0.2)
    await held("first", "f0", "f1")
    await free(api, "f0", "f1")
    await until(lambda: one.state("first") is State.TIMED_OUT)
    assert one.sample("gang_timeouts_total") >= 1
    await held("second", "s0", "s1")
    await free(api, "f0", "f1", "s0", "s1")


async def test_a_clock_that_is_set_back_keeps_nobody_waiting(api, replica, held, until):
    one = await replica(gang_timeout=0.3)
    await held("first", "f0", "f1")
    await free(api, "f0", "f1")
    one.gatekeeper._clock = lambda: time.time() - 3600
    await held("second", "s0", "s1")
    await free(api, "f0", "f1", "s0", "s1")
