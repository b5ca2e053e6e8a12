"""/explain?gang= over a real socket: state, queue position and fitting nodes of a gang."""

import json

import aiohttp
import pytest

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.http import ops
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod, PodMeta, PodSpec, SchedulingGate
from evaluator.core.readings.store import Store
from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.explain import GangExplainer
from evaluator.features.gangs.core.membership import QoS
from evaluator.features.gangs.core.types import GangDecisions, GangHistory, GangReason, GangTimings
from evaluator.features.gangs.feature import Shown
from evaluator.features.pages.feature import routes
from evaluator.features.pages.handlers import Reports
from evaluator.features.pages.sources import PageSources

NOW = 1000.0
POLICY = PolicyKey("default", "healthy")


class World:
    """The state of an evaluator with gangs, set by hand."""

    def __init__(self, gangs_of, space_of, timings):
        self._gangs_of, self._space_of = gangs_of, space_of
        self.decisions = GangDecisions()
        self.gangs, self.blockers, self.native = {}, {}, {}
        self.capacity = None
        self.now = NOW
        self.waits, self.undecided = [], []
        self.decides = True
        self.gang_explainer = GangExplainer(
            gangs=lambda: self.gangs,
            decisions=lambda: self.decisions,
            capacity=lambda: self.capacity,
            timings=timings,
            now=lambda: self.now,
            waiting_for=lambda: self.waits,
            undecided=lambda: self.undecided,
            blockers=lambda key: self.blockers.get(key, ()),
            native=self.native,
            decides=lambda: self.decides,
        )

    def see(self, *pods, only=None, **nodes):
        """Set pods and nodes and decide about them."""
        self.gangs = {gang.key: gang for gang in self._gangs_of(pods)}
        self.capacity = self._space_of(pods, only=only, **nodes)
        self.decisions = decide(
            self.gangs.values(),
            self.capacity,
            self.decisions.memory,
            GangTimings(),
            now=self.now,
            random=lambda: 0.0,
        )

    def release(self):
        """Apply the releases."""
        memory = self.decisions.memory
        for release in self.decisions.releases:
            memory = memory.released(release, now=self.now)
        self.decisions = GangDecisions(memory=memory)


@pytest.fixture
def timings():
    return GangTimings()


@pytest.fixture
def world(gangs_of, space_of, timings):
    return World(gangs_of, space_of, timings)


@pytest.fixture
def gang_explainer(world):
    return world.gang_explainer


@pytest.fixture
async def get(serve, gang_explainer):
    metrics = Metrics()
    store = Store(stale_after=30.0, started=0.0)
    cluster = ClusterCache()
    decider = DecisionLoop(cluster, store, Subscriptions(), metrics)
    part = Shown(gang_explainer).page()
    sources = PageSources(decider, cluster, clock=lambda: 0.0, parts=lambda: [part])
    operations = ops.OpsServer(decider, metrics, pages=routes(Reports(sources)))
    port = (await serve(operations.answer, ops.LIMITS)).address.port
    async with aiohttp.ClientSession() as session:

        async def fetch(name, kind="gang"):
            url = f"http://127.0.0.1:{port}/explain"
            async with session.get(url, params={kind: name}) as response:
                return response.status, json.loads(await response.text())

        async def page(path):
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, await response.text()

        fetch.pods, fetch.page = cluster.pods, page
        yield fetch


async def test_gang_with_missing_pods_is_explained(world, get, a_pod):
    world.see(
        a_pod("t-0", "train", 3),
        a_pod("t-1", "train", 3, foreign=("example.com/quota",)),
        a_pod("t-2", "train", 3, phase="Failed"),
        a=8,
    )
    (key,) = world.gangs
    world.blockers = {key: ("quota q allows 2 pods",)}
    status, page = await get("default/train")
    assert status == 200
    assert page["state"] == "Incomplete"
    assert page["message"] == "2 of 3 pods of podGroup train exist"
    assert page["waitingSeconds"] == 900.0
    assert page["obstacles"] == ["quota q allows 2 pods"]
    assert page["quorum"]["minAvailable"] == 3
    assert page["quorum"]["existing"] == 2
    assert page["quorum"]["held"] == 2
    states = {name: member["state"] for name, member in page["members"].items()}
    assert states == {"t-0": "held", "t-1": "held", "t-2": "finished: Failed"}
    assert page["members"]["t-1"]["gates"] == ["plimsoll.io/gang", "example.com/quota"]


async def test_pages_of_gangs_show_what_explain_says(world, get, a_pod):
    world.see(a_pod("t-0", "train", 3), a_pod("t-1", "<b>", 2), a=8)
    status, text = await get.page("/gangs")
    assert status == 200
    assert 'href="./gangs/default/train"' in text
    assert 'href="./gangs/default/%3Cb%3E"' in text
    assert "<b>" not in text
    queue = json.loads((await get.page("/gangs.json?search=train"))[1])
    assert [one["gang"] for one in queue["gangs"]] == ["default/train"]
    status, text = await get.page("/gangs/default/train")
    assert status == 200
    assert "1 of 3 pods of podGroup train exist" in text
    _, explained = await get("default/train")
    page = json.loads((await get.page("/gangs/default/train.json"))[1])
    window = page.pop("window")
    assert (window["found"], window["total"], page.pop("membersMore")) == (1, 1, 0)
    assert page == explained
    nowhere = json.loads((await get.page("/gangs/default/train.json?search=nowhere"))[1])
    assert nowhere["nodes"] == {}


async def test_gated_pod_is_explained_with_the_reason_of_its_gang(world, get, a_pod):
    world.see(a_pod("t-0", "train", 3), a=8)
    labels = {"podGroup": "train", "minAvailable": "3"}
    meta = PodMeta(name="t-0", namespace="default", labels=labels)
    get.pods.put(Pod(meta, PodSpec(scheduling_gates=[SchedulingGate("plimsoll.io/gang")])))
    _, page = await get("default/t-0", "pod")
    assert (page["turnedAwayByPlimsoll"], page["gang"]) == (True, "default/train")
    assert page["gangState"] == "Incomplete"
    assert page["gangMessage"] == "1 of 3 pods of podGroup train exist"


async def test_queue_position_is_explained(world, get, a_pod):
    world.see(
        a_pod("first-0", "first", 2, priority=9),
        a_pod("second-0", "second", 2, priority=5, created=50.0),
        a_pod("third-0", "third", 2, priority=5, qos=QoS.GUARANTEED),
        a_pod("fourth-0", "fourth", 2),
        a_pod("runs-0", "runs", 2, priority=99, node="a"),
        a=8,
    )
    _, page = await get("default/second")
    assert page["rank"] == {
        "groupPriority": 5,
        "qosClass": "Burstable",
        "created": "1970-01-01T00:00:50.000Z",
        "place": 3,
        "of": 4,
        "before": ["default/first", "default/third"],
        "beforeElsewhere": 0,
    }
    _, page = await get("default/runs")
    assert page["rank"]["place"] is None


async def test_fitting_pods_per_node_are_explained(world, get, a_pod):
    pods = [a_pod(f"t-{number}", "train", 4, cpu=2, policy=POLICY) for number in range(4)]
    world.see(*pods, a_pod("other", cpu=3, node="a"), only={POLICY: {"a", "c"}}, a=8, b=8, c=2)
    _, page = await get("default/train")
    assert page["state"] == "WaitsForRoom"
    assert page["needsRoom"] is True
    assert page["shortage"] == {"fit": 3, "wanted": 4, "nodes": 2, "short": "cpu"}
    assert page["fit"] == [
        {
            "pods": 4,
            "requests": {"cpu": 2000, "pods": 1},
            "policy": "default/healthy",
            "nodes": 2,
            "fitNow": 3,
            "fitWereNodesEmpty": 9,
        }
    ]
    assert page["nodes"] == {
        "a": {
            "free": {"cpu": 5000, "pods": 109},
            "pods": [{"fitNow": 2, "fitWereItEmpty": 4}],
        },
        "b": {
            "free": {"cpu": 8000, "pods": 110},
            "pods": [{"fitNow": 0, "fitWereItEmpty": 4, "shutOutBy": "its policy"}],
        },
        "c": {
            "free": {"cpu": 2000, "pods": 110},
            "pods": [{"fitNow": 1, "fitWereItEmpty": 1}],
        },
    }


@pytest.mark.parametrize("timings", [GangTimings(fit=False)])
async def test_disabled_capacity_check_is_explained(world, get, a_pod):
    world.see(a_pod("t-0", "train", 2), a=8)
    status, page = await get("default/train")
    assert (status, page["needsRoom"]) == (200, False)


async def test_unknown_node_capacity_is_not_zero(world, get, a_pod):
    world.see(a_pod("solo", others=(("example.com/fpga", 1),)), a=None)
    _, page = await get("default/solo")
    assert page["nodes"]["a"]["free"] == {"cpu": None, "pods": 110, "example.com/fpga": None}
    assert page["nodes"]["a"]["pods"] == [{"fitNow": 0, "fitWereItEmpty": 0}]


async def test_all_waiting_gangs_are_listed_in_order(world, get, a_pod):
    world.see(
        a_pod("low-0", "low", 2),
        a_pod("high-0", "high", 1, priority=5, cpu=50),
        a_pod("high-1", "high", 2, priority=5, cpu=50),
        a_pod("runs-0", "runs", 2, node="a"),
        a=8,
    )
    status, page = await get("")
    assert status == 200
    told = [(gang["gang"], gang["state"], gang["held"]) for gang in page["gangs"]]
    assert told == [("default/high", "TooLarge", 2), ("default/low", "Incomplete", 1)]


async def test_capacity_reserved_for_another_gang_is_not_free(world, get, a_pod, with_membership):
    one = [a_pod(f"one-{number}", "one", 2, cpu=2, priority=1) for number in range(2)]
    two = [a_pod(f"two-{number}", "two", 2, cpu=2) for number in range(2)]
    world.see(*one, *two, a=6)
    assert [release.reason for release in world.decisions.releases] == [GangReason.ADMITTED]
    world.release()
    lifted = [with_membership(pod, gated=False, admitted=NOW) for pod in one]
    world.see(*lifted, *two, a=6)
    _, page = await get("default/two")
    assert page["fit"][0]["fitNow"] == 1
    assert page["state"] == "WaitsForTurn"
    _, page = await get("default/one")
    assert page["state"] == "Released"
    assert page["fit"][0]["fitNow"] == 3
    assert page["turn"] == {
        "began": "1970-01-01T00:16:40.000Z",
        "ends": "1970-01-01T00:17:40.000Z",
        "restsUntil": None,
        "timeouts": 0,
    }
    assert page["admitted"] == ["uid-one"]


async def test_capacity_is_reserved_until_the_timeout(world, get, a_pod):
    lifted = [
        a_pod(f"one-{number}", "one", 2, cpu=2, gated=False, admitted=NOW) for number in range(2)
    ]
    world.see(*lifted, a_pod("two-0", "two", 2, cpu=2), a=6)
    _, page = await get("default/two")
    assert page["fit"][0]["fitNow"] == 1
    world.now = NOW + 61
    world.see(*lifted, a_pod("two-0", "two", 2, cpu=2), a=6)
    _, page = await get("default/two")
    assert page["fit"][0]["fitNow"] == 3
    _, page = await get("default/one")
    assert page["state"] == "TimedOut"
    assert page["turn"]["timeouts"] == 1
    assert page["turn"]["restsUntil"] == "1970-01-01T00:17:51.000Z"


async def test_gated_pod_without_a_gang_is_explained(world, get, a_pod):
    world.see(a_pod("solo", cpu=9), a=4)
    _, page = await get("default/solo")
    assert page["alone"]
    assert page["state"] == "TooLarge"


async def test_running_gang_lists_no_nodes(world, get, a_pod):
    world.see(*[a_pod(f"t-{number}", "train", 2, node="a") for number in range(2)], a=4)
    _, page = await get("default/train")
    assert page["state"] == "Scheduled"
    assert page["nodes"] == {}
    assert page["fit"] == []


async def test_unknown_gang_is_a_404_with_the_known_ones(world, get, a_pod):
    own = [a_pod(f"g{number:02}-0", f"g{number:02}", 2) for number in range(12)]
    world.see(*own, a_pod("z-0", "z", 2, namespace="a"), a=4)
    status, page = await get("default/trian")
    assert status == 404
    assert "no gang default/trian (use <namespace>/<podGroup>" in page["error"]
    assert "known in this namespace: default/g00, default/g01," in page["error"]
    assert page["error"].endswith(" and 2 more")


async def test_native_pod_group_is_explained(world, get, a_pod):
    pod = a_pod("both", native=True)
    world.see(a=4)
    world.native[pod.key] = pod
    status, page = await get("default/both")
    assert status == 404
    assert "spec.schedulingGroup" in page["error"]


async def test_follower_reports_that_it_does_not_decide(world, get, a_pod):
    world.see(a_pod("t-0", "train", 3), a=8)
    world.decides = False
    world.undecided = ["another replica"]
    _, page = await get("default/train")
    assert page["state"] is None
    assert "another replica is leader" in page["message"]
    assert page["waitingFor"] == ["another replica"]
    assert page["quorum"]["existing"] == 1
    assert page["fit"][0]["fitNow"] == 8


async def test_before_the_first_list_the_page_reports_what_is_pending(world, get):
    world.waits = ["all pods"]
    status, page = await get("default/train")
    assert (status, page["error"]) == (503, "waiting for all pods")


@pytest.mark.parametrize("gang_explainer", [None])
async def test_disabled_gangs_are_reported(get):
    status, page = await get("default/train")
    assert status == 404
    assert "--gangs" in page["error"]


async def test_new_gang_is_reported_as_undecided(world, get, a_pod):
    world.see(a_pod("t-0", "train", 3), a=8)
    world.decisions = GangDecisions(memory=GangHistory())
    _, page = await get("default/train")
    assert page["state"] is None
    assert page["message"] == "no decision yet"
