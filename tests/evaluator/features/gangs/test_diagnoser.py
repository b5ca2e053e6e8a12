"""The Diagnoser with a fake API server and clock: when it diagnoses gangs, and its results."""

import json

import pytest

from evaluator.core.cache.pods import PodCache
from evaluator.core.kube.transport import KubeError
from evaluator.features.gangs.core.labels import decode
from evaluator.features.gangs.core.membership import GATE
from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import GangDecisions, GangHistory, GangState, GangVerdict
from evaluator.features.gangs.diagnoser import Diagnoser, DiagnosisTimings
from tests.evaluator.features.gangs.fed import fed_index

TRAIN = GangKey("ns", "train")
TOO_FEW = (
    "Job train creates at most 2 pods (parallelism): at most 2 of the 4 required pods can exist",
)
QUOTA = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
REJECTED = f"Job train failed to create a pod: {QUOTA}"
TIMINGS = DiagnosisTimings(grace=5.0, interval=30.0, pause=0.25, idle=1.0)


def pod(name, *, group="train", minimum="4", owner="train", kind="Job", version="batch/v1"):
    reference = {
        "apiVersion": version,
        "kind": kind,
        "name": owner,
        "uid": f"uid-{owner}",
        "controller": True,
    }
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"podGroup": group, "minAvailable": minimum},
            "ownerReferences": [reference] if owner else [],
        },
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "schedulingGates": [{"name": GATE}],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


class World:
    """The evaluator's pod cache, and an API server with controllers; `fails`: status by resource."""

    def __init__(self, rng):
        self.now = 100.0
        self.leads = True
        self.requests = []
        self.fails = {}
        self.events = {}
        self.controllers = {}
        self.changes = 0
        self.cache = PodCache(clock=lambda: self.now, wall=lambda: self.now)
        self.index = fed_index(self.cache)
        self.admitted = {}
        self.diagnoser = Diagnoser(
            self,
            lambda: self.index.by_key,
            self.decisions,
            is_leader=lambda: self.leads,
            publish=lambda _signal: self.changed(),
            timings=TIMINGS,
            clock=lambda: self.now,
            rng=rng,
        )

    def decisions(self):
        """The relevant fields of GangDecisions."""
        verdicts = {gang.key: GangVerdict(self.state(gang), "", 0.0) for gang in self.index.gangs}
        return GangDecisions(verdicts, memory=GangHistory(self.admitted))

    def state(self, gang):
        has_quorum = gang.has_quorum(admitted=gang.key in self.admitted)
        return GangState.WAITS_FOR_TURN if has_quorum else GangState.INCOMPLETE

    def changed(self):
        self.changes += 1

    def add(self, *pods):
        for one in pods:
            self.cache.pods.put(decode(json.dumps(one).encode()))

    def job(self, name="train", **spec):
        self.controllers[name] = {"metadata": {"uid": f"uid-{name}"}, "spec": spec}

    def rejects(self, *messages):
        at = "2026-11-20T21:00:00Z"
        self.events["uid-train"] = [
            {"reason": "FailedCreate", "message": message, "lastTimestamp": at}
            for message in messages
        ]

    async def after(self, seconds):
        """Advance the time and run once; return the result for the gang."""
        self.now += seconds
        await self.diagnoser.run_once()
        return self.diagnoser.blockers(TRAIN)

    async def diagnosed(self):
        """The first diagnosis of new gangs."""
        await self.after(0)
        return await self.after(TIMINGS.grace)

    def _answer(self, resource, name, answer):
        self.requests.append((resource, name))
        if (status := self.fails.get(resource)) is not None:
            raise KubeError(status, f"{resource}: no")
        return answer

    async def read_controller(self, api_version, resource, namespace, name):
        assert namespace == "ns"
        return self._answer(resource, name, self.controllers.get(name))

    async def list_events_about(self, namespace, uid):
        events = [json.dumps(event).encode() for event in self.events.get(uid, ())]
        return self._answer("events", uid, events)


@pytest.fixture
def world(rng):
    made = World(rng)
    made.add(pod("a"), pod("b"))
    made.job(parallelism=2, completions=8)
    return made


async def test_incomplete_gang_is_diagnosed_after_the_grace_period(world):
    assert await world.after(0) == ()
    assert await world.after(4.9) == ()
    assert world.requests == []
    assert await world.after(0.1) == TOO_FEW
    assert world.changes == 1


async def test_controller_of_many_pods_is_read_once(world):
    await world.diagnosed()
    assert world.requests == [("jobs", "train")]


async def test_events_are_read_only_of_controllers_below_their_limit(world):
    world.job(parallelism=4)
    await world.diagnosed()
    assert world.requests == [("jobs", "train"), ("events", "uid-train")]


async def test_diagnosis_is_repeated_and_published_on_changes_only(world):
    await world.diagnosed()
    world.job(parallelism=9, completions=9)
    world.rejects(f'Error creating: pods "train-x7f" is forbidden: {QUOTA}')
    assert await world.after(29.0) == TOO_FEW
    assert await world.after(1.0) == (REJECTED,)
    assert world.changes == 2
    assert await world.after(30.0) == (REJECTED,)
    assert world.changes == 2


async def test_gang_that_has_become_complete_has_no_blockers(world):
    await world.diagnosed()
    assert world.diagnoser.count_blocked() == 1
    world.add(pod("c"), pod("d"))
    assert world.diagnoser.blockers(TRAIN) == ()
    assert world.diagnoser.count_blocked() == 0
    world.requests.clear()
    await world.after(60.0)
    assert world.requests == []


async def test_succeeded_pods_of_an_admitted_gang_are_not_missing(world):
    """One of four succeeded, one is lost, two exist: only the lost one cannot be created."""
    done = pod("c")
    done["spec"]["schedulingGates"] = []
    done["status"]["phase"] = "Succeeded"
    world.add(done)
    world.job(parallelism=2, completions=4)
    world.controllers["train"]["status"] = {"succeeded": 1}
    world.admitted = {TRAIN: frozenset({"uid-train"})}
    assert await world.diagnosed() == (
        "Job train creates at most 2 pods (parallelism): at most 3 of the 4 required pods can exist",
    )


async def test_new_gang_of_the_same_name_gets_a_new_grace_period(world):
    await world.diagnosed()
    for name in ("a", "b"):
        world.cache.pods.drop(world.cache.pods.objects["ns", name])
    await world.after(1.0)
    world.add(pod("a"))
    assert await world.after(0) == ()
    assert await world.after(4.9) == ()
    assert await world.after(0.1) != ()


async def test_follower_makes_no_requests_and_forgets_results(world):
    await world.diagnosed()
    world.leads = False
    world.requests.clear()
    assert await world.after(60.0) == ()
    assert world.requests == []
    world.leads = True
    assert await world.diagnosed() == TOO_FEW


async def test_failed_create_event_is_passed_on(world):
    world.job(parallelism=4)
    world.rejects(f'Error creating: pods "train-x7f" is forbidden: {QUOTA}')
    assert await world.diagnosed() == (REJECTED,)
    world.rejects()
    assert await world.after(30.0) == ()


async def test_replica_failure_condition_is_passed_on(world):
    world.add(*(pod(name, kind="ReplicaSet", version="apps/v1") for name in "ab"))
    message = f'pods "train-x7f" is forbidden: {QUOTA}'
    conditions = [{"type": "ReplicaFailure", "status": "True", "message": message}]
    world.job(replicas=4)
    world.controllers["train"]["status"] = {"conditions": conditions}
    assert await world.diagnosed() == (REJECTED.replace("Job", "ReplicaSet"),)
    assert ("events", "uid-train") not in world.requests


async def test_controller_of_the_same_name_and_another_uid_is_not_the_owner(world):
    world.controllers["train"]["metadata"]["uid"] = "uid-of-another"
    assert await world.diagnosed() == ("Job train no longer exists",)


async def test_job_of_another_api_group_is_not_read_and_its_events_are(world):
    world.add(*(pod(name, version="batch.volcano.sh/v1alpha1") for name in "ab"))
    assert await world.diagnosed() == ()
    assert "jobs" not in dict(world.requests)
    world.rejects(QUOTA)
    assert await world.after(30.0) == (REJECTED,)


async def test_gang_of_bare_pods_has_no_blockers(world):
    world.add(pod("a", owner=""), pod("b", owner=""))
    assert await world.diagnosed() == ()
    assert world.requests == []


async def test_gang_of_very_many_controllers_is_not_diagnosed(world):
    world.add(*(pod(f"p{number}", owner=f"o{number}", minimum="99") for number in range(17)))
    assert await world.diagnosed() == ()
    assert world.requests == []


async def test_forbidden_resource_is_logged_once_and_the_rest_is_diagnosed(world, log_lines):
    lines = log_lines("logfmt")
    world.fails = {"events": 403}
    world.controllers["train"]["spec"] = {"parallelism": 3, "completions": 8}
    expected = (
        "Job train creates at most 3 pods (parallelism): at most 3 of the 4 required pods can exist",
    )
    assert await world.diagnosed() == expected
    assert await world.after(30.0) == expected
    logged = [line for line in lines() if "cannot read why gangs lack pods" in line]
    assert len(logged) == 1
    assert "events" in logged[0]


async def test_forbidden_controller_does_not_count_as_deleted(world):
    world.fails = {"jobs": 403}
    world.rejects(QUOTA)
    assert await world.diagnosed() == (REJECTED,)


@pytest.mark.parametrize("status", [0, 429, 500])
async def test_last_result_is_kept_while_the_api_server_fails(world, status):
    await world.diagnosed()
    world.job(parallelism=9, completions=9)
    world.fails = {"jobs": status}
    assert await world.after(30.0) == TOO_FEW
    world.fails = {}
    assert await world.after(30.0) == ()


async def test_error_of_one_gang_does_not_block_another(world):
    await world.diagnosed()
    world.add(pod("other", group="other", owner="other"))
    world.controllers["other"] = {"metadata": {"uid": "uid-other"}, "spec": {"parallelism": 1}}
    world.controllers["train"]["spec"]["parallelism"] = "not a number"
    await world.after(0)
    await world.after(30.0)
    await world.after(0)
    assert world.diagnoser.blockers(TRAIN) == TOO_FEW
    assert world.diagnoser.blockers(GangKey("ns", "other")) == (
        "Job other creates at most 1 pod (parallelism): at most 1 of the 4 required pods can exist",
    )


async def test_each_run_diagnoses_the_gang_that_waits_longest(world):
    for number in range(3):
        world.add(pod(f"p{number}", group=f"g{number}", owner=f"o{number}"))
    await world.after(0)
    diagnosed = []
    world.now += TIMINGS.grace
    for _ in range(4):
        world.requests.clear()
        assert await world.diagnoser.run_once() == TIMINGS.pause
        diagnosed += [name for resource, name in world.requests if resource == "jobs"]
    assert sorted(diagnosed) == ["o0", "o1", "o2", "train"]
    assert await world.diagnoser.run_once() == TIMINGS.idle
