"""Events on pods of waiting gangs, on the sandbox's API server, continued by a new leader."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.kube.event_queue import EventTimings
from evaluator.core.leader.write_fence import WriteFence
from evaluator.features.gangs.core.messages import native, overdue
from evaluator.features.gangs.core.types import GangDecisions, GangState, GangVerdict
from evaluator.features.gangs.events import GangEventRecorder
from evaluator.features.gangs.metrics import GangMetrics
from plimsoll.ratelimit import TokenBucket
from tests.clock import Clock
from tests.patience import PATIENCE

EVENTS = "/api/v1/namespaces/default/events"
AT_ONCE = EventTimings(settle=0.0, rest=0.0)


class World:
    """An event recorder in a fake environment: given gangs and decisions."""

    def __init__(self, kube, rng, gangs_of, *, pace=AT_ONCE, **more):
        self.kube = kube
        self.registry = CollectorRegistry()
        self.metrics = GangMetrics(self.registry)
        self.gangs = {}
        self.verdicts = {}
        self.blockers = {}
        self.native = {}
        self.is_leader = True
        self.clock = Clock(5000.0)
        self._gangs_of = gangs_of
        self.event_recorder = GangEventRecorder(
            kube,
            self.metrics,
            lambda: self.gangs,
            lambda: GangDecisions(self.verdicts),
            lambda key: self.blockers.get(key, ()),
            self.native,
            is_leader=lambda: self.is_leader,
            pace=pace,
            pause=0.01,
            clock=self.clock,
            rng=rng,
            **more,
        )

    def see(self, *pods, state=GangState.INCOMPLETE, message="", problems=(), blockers=()):
        """Set the pods of the only gang and its verdict."""
        self.gangs = {gang.key: gang for gang in self._gangs_of(pods)}
        verdict = GangVerdict(state, message, 0.0, problems)
        self.verdicts = dict.fromkeys(self.gangs, verdict)
        self.blockers = dict.fromkeys(self.gangs, tuple(blockers))
        self.event_recorder.wake()

    def counted(self, reason, result):
        of = {"reason": reason, "result": result}
        return self.registry.get_sample_value("plimsoll_gang_events_total", of)


async def until(predicate):
    async with asyncio.timeout(PATIENCE):
        while True:
            if predicate():
                return
            await asyncio.sleep(0.005)


@pytest.fixture
def world(connect, rng, gangs_of, background):
    async def start(url, **more):
        made = World(await connect(url), rng, gangs_of, **more)
        background(made.event_recorder.run())
        return made

    return start


@pytest.fixture
def told(api):
    """Wait until the events are exactly these: (pod, reason) → (message, count)."""

    def summary(listed):
        return {
            (e["involvedObject"]["name"], e["reason"]): (e["message"], e["count"])
            for e in listed["items"]
        }

    async def wait(wanted):
        found = await api.seen(EVENTS, lambda listed: summary(listed) == wanted)
        return found["items"]

    return wait


@pytest.fixture
def train(a_pod):
    """Gated pods of a gang of four."""
    return [a_pod(f"train-{number}", "train", 4) for number in range(4)]


async def test_each_waiting_pod_has_an_event_with_what_is_missing(api, world, told, train, a_pod):
    gang = await world(api.url)
    gang.see(*train[:2], a_pod("placed", "train", 4, node="n"), message="2 of 4 exist")
    found = await told(
        {
            ("train-0", "GangIncomplete"): ("2 of 4 exist", 1),
            ("train-1", "GangIncomplete"): ("2 of 4 exist", 1),
        }
    )
    (event,) = (event for event in found if event["involvedObject"]["name"] == "train-0")
    assert event["involvedObject"]["uid"] == "uid-train-0"
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["type"] == "Normal"
    assert gang.counted("GangIncomplete", "ok") == 2


async def test_new_text_updates_the_existing_event(api, world, told, train):
    gang = await world(api.url)
    gang.see(train[0], message="1 of 4 exist")
    await told({("train-0", "GangIncomplete"): ("1 of 4 exist", 1)})
    gang.see(train[0], message="2 of 4 exist")
    await told({("train-0", "GangIncomplete"): ("2 of 4 exist", 2)})
    gang.see(train[0], state=GangState.WAITS_FOR_ROOM, message="no room")
    await told(
        {
            ("train-0", "GangIncomplete"): ("2 of 4 exist", 2),
            ("train-0", "GangWaitsForRoom"): ("no room", 1),
        }
    )


async def test_blockers_and_problems_are_warnings(api, world, told, train):
    gang = await world(api.url)
    gang.see(train[0], message="1 of 4", problems=["mismatch"], blockers=["a quota"])
    found = await told(
        {
            ("train-0", "GangIncomplete"): ("1 of 4", 1),
            ("train-0", "GangCannotComplete"): ("a quota", 1),
            ("train-0", "GangLabels"): ("mismatch", 1),
        }
    )
    kinds = {event["reason"]: event["type"] for event in found}
    assert kinds == {
        "GangIncomplete": "Normal",
        "GangCannotComplete": "Warning",
        "GangLabels": "Warning",
    }


async def test_new_leader_updates_the_events_of_the_last(api, world, told, train):
    first = await world(api.url)
    first.see(train[0], message="1 of 4 exist")
    await told({("train-0", "GangIncomplete"): ("1 of 4 exist", 1)})
    first.see(train[0], message="2 of 4 exist")
    await told({("train-0", "GangIncomplete"): ("2 of 4 exist", 2)})
    first.is_leader = False
    second = await world(api.url)
    second.see(train[0], message="3 of 4 exist")
    await told({("train-0", "GangIncomplete"): ("3 of 4 exist", 2)})
    second.see(train[0], message="2 of 4 exist")
    await told({("train-0", "GangIncomplete"): ("2 of 4 exist", 3)})


async def test_returning_leader_rewrites_events_that_another_may_have_changed(
    api, world, told, train
):
    gang = await world(api.url)
    gang.see(train[0], message="1 of 4 exist")
    (event,) = await told({("train-0", "GangIncomplete"): ("1 of 4 exist", 1)})
    await api.merge(f"{EVENTS}/{event['metadata']['name']}", {"message": "of another leader"})
    gang.event_recorder.start_over()
    await told({("train-0", "GangIncomplete"): ("1 of 4 exist", 1)})


async def test_expired_event_is_created_again(api, world, told, train):
    gang = await world(api.url)
    gang.see(train[0], message="1 of 4 exist")
    (event,) = await told({("train-0", "GangIncomplete"): ("1 of 4 exist", 1)})
    await api.delete(f"{EVENTS}/{event['metadata']['name']}")
    gang.see(train[0], message="2 of 4 exist")
    await told({("train-0", "GangIncomplete"): ("2 of 4 exist", 2)})


async def test_own_gate_on_a_native_pod_group_is_a_warning(api, world, told, a_pod):
    gang = await world(api.url)
    pod = a_pod("both", native=True)
    gang.native[pod.key] = pod
    gang.event_recorder.wake()
    (event,) = await told({("both", "GangNative"): (native().message, 1)})
    assert event["type"] == "Warning"
    assert "schedulingGroup" in event["message"]


async def test_text_is_cut_to_the_limit_of_kubernetes_in_updates_too(api, world, told, train):
    gang = await world(api.url)
    for count, letter in enumerate("ab", 1):
        gang.see(train[0], message=letter * 2000)
        await told({("train-0", "GangIncomplete"): (letter * 1021 + "...", count)})


async def test_final_event_is_written_once(api, world, told, train):
    gang = await world(api.url)
    notice = overdue(None)
    gang.event_recorder.record_once(train[0], notice)
    await told({("train-0", "GangOverdue"): (notice.message, 1)})
    gang.clock.now += 1e6
    gang.see(train[1], message="1 of 4 exist")
    await told(
        {
            ("train-0", "GangOverdue"): (notice.message, 1),
            ("train-1", "GangIncomplete"): ("1 of 4 exist", 1),
        }
    )


def asked(stub_server):
    return [(one.method, one.json.get("count")) for one in stub_server.asked]


async def test_unchanged_text_is_repeated_before_the_event_expires(
    stub_server, answer, world, train
):
    stub_server.otherwise(answer.says(200, {"count": 1}))
    gang = await world(stub_server.url)
    gang.see(train[0], message="1 of 4 exist")
    await until(lambda: gang.counted("GangIncomplete", "ok"))
    gang.clock.now += 1801
    gang.event_recorder.wake()
    await stub_server.until(2)
    assert asked(stub_server) == [("POST", 1), ("PATCH", 2)]


async def test_only_the_leader_writes_events(stub_server, answer, world, train):
    stub_server.otherwise(answer.says(200, {"count": 1}))
    gang = await world(stub_server.url)
    gang.is_leader = False
    gang.see(*train, message="x")
    await asyncio.sleep(0)
    gang.see(train[0], message="y")
    gang.is_leader = True
    gang.event_recorder.start_over()
    (only,) = await stub_server.until(1)
    assert only.json["message"] == "y"


async def test_new_leadership_drops_the_texts_of_the_last(stub_server, answer, world, train):
    gang = await world(stub_server.url)

    async def in_the_middle(request):
        gang.see(*train, message="new")
        gang.event_recorder.start_over()
        return await answer.says(200, {"count": 1})(request)

    stub_server.then(in_the_middle)
    stub_server.otherwise(answer.says(200, {"count": 1}))
    gang.see(*train, message="old")
    asked = await stub_server.until(5)
    assert [one.json["message"] for one in asked] == ["old", *["new"] * 4]


async def test_short_lived_text_is_not_written(stub_server, answer, world, train):
    stub_server.otherwise(answer.says(200, {"count": 1}))
    gang = await world(stub_server.url, pace=EventTimings(settle=2.0))
    for number in range(1, 5):
        gang.see(*train[:number], message=f"{number} of 4 exist")
        await until(lambda: not gang.event_recorder._wakeup.is_set())
        gang.clock.now += 1
    gang.clock.now += 1
    gang.event_recorder.wake()
    await stub_server.until(4)
    assert {one.json["message"] for one in stub_server.asked} == {"4 of 4 exist"}


async def test_writes_are_bounded(stub_server, answer, world, a_pod):
    stub_server.otherwise(answer.says(200, {"count": 1}))
    gang = await world(stub_server.url, bucket=TokenBucket(1.0, 5))
    pods = [a_pod(f"p{number}", "train", 40) for number in range(20)]
    gang.see(*pods, message="20 of 40 exist")
    await stub_server.until(5)
    gang.event_recorder.wake()
    await until(lambda: not gang.event_recorder._wakeup.is_set())
    assert len(stub_server.asked) == 5
    for count in (10, 15, 20):
        gang.clock.now += 5
        gang.event_recorder.wake()
        await stub_server.until(count)
    assert len({one.json["involvedObject"]["name"] for one in stub_server.asked}) == 20


async def test_pod_gone_before_its_event_gets_none(stub_server, answer, world, train, a_pod):
    stub_server.otherwise(answer.says(200, {"count": 1}))
    gang = await world(stub_server.url, pace=EventTimings(settle=2.0))
    both = a_pod("both", native=True)
    gang.native[both.key] = both
    gang.see(train[0], message="1 of 4 exist")
    await until(lambda: not gang.event_recorder._wakeup.is_set())
    gang.native.clear()
    gang.see(a_pod("other-0", "other", 2), message="1 of 2 exist")
    await until(lambda: not gang.event_recorder._wakeup.is_set())
    gang.clock.now += 1000
    gang.event_recorder.wake()
    await until(lambda: gang.counted("GangIncomplete", "ok"))
    gang.event_recorder.wake()
    await until(lambda: not gang.event_recorder._wakeup.is_set())
    assert [one.json["message"] for one in stub_server.asked] == ["1 of 2 exist"]


async def test_failing_api_server_is_retried_later(stub_server, answer, world, train):
    stub_server.then(answer.refuses(500), answer.breaks)
    stub_server.otherwise(answer.says(200, {"count": 1}))
    gang = await world(stub_server.url)
    gang.see(train[0], message="1 of 4 exist")
    await stub_server.until(3)
    assert {one.json["message"] for one in stub_server.asked} == {"1 of 4 exist"}


async def test_missing_permission_is_logged_once(stub_server, answer, world, train, log_lines):
    lines = log_lines("logfmt")
    stub_server.otherwise(answer.refuses(403, "Forbidden", "no events for you"))
    gang = await world(stub_server.url)
    gang.see(*train, message="4 of 4 exist")
    await stub_server.until(4)
    gang.see(train[0], message="1 of 4 exist")
    await stub_server.until(5)
    said = [line for line in lines() if "not allowed to write events" in line]
    assert len(said) == 1
    assert "no events for you" in said[0]


async def test_terminating_namespace_is_no_missing_permission(
    stub_server, answer, world, train, log_lines
):
    lines = log_lines("logfmt")
    causes = [{"reason": "NamespaceTerminating"}]
    stub_server.otherwise(answer.refuses(403, "Forbidden", "being terminated", causes))
    gang = await world(stub_server.url)
    gang.see(train[0], message="1 of 4 exist")
    await stub_server.until(1)
    gang.see(train[0], message="2 of 4 exist")
    await stub_server.until(2)
    assert [line for line in lines() if "not allowed" in line] == []


async def test_nothing_is_written_without_leadership(stub_server, world, train):
    gang = await world(stub_server.url)
    gang.kube.fence = WriteFence().write
    gang.see(train[0], message="1 of 4 exist")
    await until(lambda: gang.counted("GangIncomplete", "error"))
    assert stub_server.asked == []
