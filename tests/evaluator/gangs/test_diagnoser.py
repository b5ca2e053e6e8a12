"""What keeps a gang from its pods is asked for while it lacks some, at a pace, and by the replica that tells of it."""

import json

import pytest

from evaluator.cache.pods import PodCache
from evaluator.gangs.core.index import GangIndex
from evaluator.gangs.core.podgroup import GangKey
from evaluator.gangs.core.types import GangDecisions, GangHistory, GangState, GangVerdict
from evaluator.gangs.diagnoser import Diagnoser, DiagnosisTimings
from evaluator.kubeapi.transport import KubeError
from evaluator.model.gang_membership import GATE
from evaluator.model.pod_record import decode

TRAIN = GangKey("ns", "train")
SHORT = ("Job train makes 2 at once (parallelism): no more than 2 of the 4 pods that are needed",)
NO_QUOTA = ("ResourceQuota q has 0 of 5 pods left, and the gang lacks 2",)
REFUSED = "Job train could not make a pod when it tried last: no room at the inn"
PACE = DiagnosisTimings(patience=5.0, again=30.0, pause=0.25, idle=1.0)


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
    """The pods that the evaluator knows, and an API server with what is around them; `fails` by resource."""

    def __init__(self, rng):
        self.now = 100.0
        self.leads = True
        self.asked = []
        self.fails = {}
        self.quotas = []
        self.events = {}
        self.controllers = {}
        self.changes = 0
        self.pods = {}
        self.inventory = PodCache(clock=lambda: self.now, wall=lambda: self.now)
        self.roster = GangIndex(self.inventory)
        self.admitted = {}
        self.inquirer = Diagnoser(
            self,
            lambda: self.roster.by_key,
            self.outcome,
            is_leader=lambda: self.leads,
            pace=PACE,
            clock=lambda: self.now,
            rng=rng,
        )
        self.inquirer.listeners.append(self.heard)

    def outcome(self):
        """As much of a decision as matters here."""
        verdicts = {gang.key: GangVerdict(self.state(gang), "", 0.0) for gang in self.roster.gangs}
        return GangDecisions(verdicts, memory=GangHistory(self.admitted))

    def state(self, gang):
        has_quorum = gang.has_quorum(admitted=gang.key in self.admitted)
        return GangState.WAITS_FOR_TURN if has_quorum else GangState.INCOMPLETE

    def heard(self):
        self.changes += 1

    def add(self, *pods):
        for one in pods:
            self.pods[one["metadata"]["name"]] = one
            self.inventory.pods.put(decode(json.dumps(one).encode()))

    def job(self, name="train", **spec):
        self.controllers[name] = {"metadata": {"uid": f"uid-{name}"}, "spec": spec}

    def told(self, *messages):
        at = "2026-11-20T21:00:00Z"
        self.events["uid-train"] = [
            {"reason": "FailedCreate", "message": message, "lastTimestamp": at}
            for message in messages
        ]

    def quota(self, hard, used):
        status = {"hard": {"pods": hard}, "used": {"pods": used}}
        self.quotas = [{"metadata": {"name": "q"}, "spec": {}, "status": status}]

    async def after(self, seconds):
        """The next round, then; what it found of the gang."""
        self.now += seconds
        await self.inquirer.round()
        return self.inquirer.obstacles(TRAIN)

    async def looked(self):
        """The first look at gangs that are new."""
        await self.after(0)
        return await self.after(PACE.patience)

    def _answer(self, resource, name, answer):
        self.asked.append((resource, name))
        if (status := self.fails.get(resource)) is not None:
            raise KubeError(status, f"{resource}: no")
        return answer

    async def read_pod(self, namespace, name):
        return self._answer("pods", name, self.pods.get(name))

    async def read_controller(self, api_version, resource, namespace, name):
        assert namespace == "ns"
        return self._answer(resource, name, self.controllers.get(name))

    async def list_quotas(self, namespace):
        return self._answer("resourcequotas", "", [*map(encoded, self.quotas)])

    async def list_events_about(self, namespace, uid):
        return self._answer("events", uid, [*map(encoded, self.events.get(uid, ()))])


def encoded(obj):
    return obj if isinstance(obj, bytes) else json.dumps(obj).encode()


@pytest.fixture
def world(rng):
    made = World(rng)
    made.add(pod("a"), pod("b"))
    made.job(parallelism=2, completions=8)
    return made


async def test_a_gang_that_lacks_pods_is_looked_at_after_a_moment(world):
    assert await world.after(0) == ()
    assert await world.after(4.9) == ()
    assert world.asked == []
    assert await world.after(0.1) == SHORT
    assert world.changes == 1


async def test_one_pod_of_each_sort_speaks_for_the_others(world):
    await world.looked()
    assert world.asked == [("pods", "b"), ("jobs", "train"), ("resourcequotas", "")]


async def test_it_is_looked_at_again_and_a_change_is_told_once(world):
    await world.looked()
    world.job(parallelism=9, completions=9)
    world.quota("5", "5")
    assert await world.after(29.0) == SHORT
    assert await world.after(1.0) == NO_QUOTA
    assert world.changes == 2
    assert await world.after(30.0) == NO_QUOTA
    assert world.changes == 2


async def test_nothing_is_said_of_a_gang_that_is_complete_by_now(world):
    await world.looked()
    assert world.inquirer.obstructed == 1
    world.add(pod("c"), pod("d"))
    assert world.inquirer.obstacles(TRAIN) == ()
    assert world.inquirer.obstructed == 0
    world.asked.clear()
    await world.after(60.0)
    assert world.asked == []


async def test_of_an_admitted_gang_pods_that_have_done_their_work_are_not_missing(world):
    """Of four one is done, one is lost, and two are there: the one that is lost cannot be made."""
    done = pod("c")
    done["spec"]["schedulingGates"] = []
    done["status"]["phase"] = "Succeeded"
    world.add(done)
    world.job(parallelism=3, completions=4)
    world.controllers["train"]["status"] = {"succeeded": 1}
    world.quota("5", "5")
    world.admitted = {TRAIN: frozenset({"uid-train"})}
    assert await world.looked() == ("ResourceQuota q has 0 of 5 pods left, and the gang lacks 1",)


async def test_the_next_life_of_a_gang_is_looked_at_anew(world):
    await world.looked()
    for name in ("a", "b"):
        world.inventory.pods.drop(world.inventory.pods.objects["ns", name])
    await world.after(1.0)
    world.add(pod("a"))
    assert await world.after(0) == ()
    assert await world.after(4.9) == ()
    assert await world.after(0.1) != ()


async def test_who_does_not_lead_asks_nothing_and_knows_nothing(world):
    await world.looked()
    world.leads = False
    world.asked.clear()
    assert await world.after(60.0) == ()
    assert world.asked == []
    world.leads = True
    assert await world.looked() == SHORT


async def test_the_words_of_the_api_server_are_told_where_nothing_else_explains(world):
    world.job(parallelism=4)
    world.told('Error creating: pods "train-x7f" is forbidden: no room at the inn')
    assert await world.looked() == (REFUSED,)
    world.told()
    assert await world.after(30.0) == ()


async def test_a_replica_set_says_it_itself(world):
    world.add(*(pod(name, kind="ReplicaSet", version="apps/v1") for name in "ab"))
    message = 'pods "train-x7f" is forbidden: no room at the inn'
    conditions = [{"type": "ReplicaFailure", "status": "True", "message": message}]
    world.job(replicas=4)
    world.controllers["train"]["status"] = {"conditions": conditions}
    assert await world.looked() == (REFUSED.replace("Job", "ReplicaSet"),)
    assert ("events", "uid-train") not in world.asked


async def test_a_namesake_is_not_the_owner(world):
    world.controllers["train"]["metadata"]["uid"] = "uid-of-another"
    assert await world.looked() == ("Job train does not exist any more",)


async def test_a_job_of_another_api_is_another_thing(world):
    world.add(*(pod(name, version="batch.volcano.sh/v1alpha1") for name in "ab"))
    assert await world.looked() == ()
    assert "jobs" not in dict(world.asked)
    world.told("no room at the inn")
    assert await world.after(30.0) == (REFUSED,)


async def test_pods_without_an_owner_are_held_to_the_quota_alone(world):
    world.add(pod("a", owner=""), pod("b", owner=""))
    world.quota("5", "5")
    assert await world.looked() == NO_QUOTA


async def test_what_may_not_be_read_is_told_once_and_the_rest_is_found(world, log_lines):
    lines = log_lines("logfmt")
    world.fails = {"resourcequotas": 403}
    assert await world.looked() == SHORT
    assert await world.after(30.0) == SHORT
    told = [line for line in lines() if "cannot look for what keeps gangs" in line]
    assert len(told) == 1
    assert "resourcequotas" in told[0]


async def test_a_controller_that_may_not_be_read_is_not_one_that_is_gone(world):
    world.fails = {"jobs": 403}
    world.quota("5", "5")
    assert await world.looked() == NO_QUOTA


@pytest.mark.parametrize("status", [0, 429, 500])
async def test_what_was_found_counts_while_nobody_answers(world, status):
    await world.looked()
    world.job(parallelism=9, completions=9)
    world.fails = {"resourcequotas": status}
    assert await world.after(30.0) == SHORT
    world.fails = {}
    assert await world.after(30.0) == ()


async def test_a_gang_that_cannot_be_looked_at_keeps_nobody_from_another(world):
    await world.looked()
    world.add(pod("other", group="other", owner="other"))
    world.controllers["other"] = {"metadata": {"uid": "uid-other"}, "spec": {"parallelism": 1}}
    world.controllers["train"]["spec"]["parallelism"] = "not a number"
    await world.after(0)
    await world.after(30.0)
    await world.after(0)
    assert world.inquirer.obstacles(TRAIN) == SHORT
    assert world.inquirer.obstacles(GangKey("ns", "other")) == (
        "Job other makes 1 at once (parallelism): no more than 1 of the 4 pods that are needed",
    )


async def test_gangs_are_looked_at_one_by_one_those_first_that_wait_longest(world):
    for number in range(3):
        world.add(pod(f"p{number}", group=f"g{number}", owner=""))
    await world.after(0)
    looked = []
    world.now += PACE.patience
    for _ in range(4):
        world.asked.clear()
        pause = await world.inquirer.round()
        assert pause == PACE.pause
        looked += [name for resource, name in world.asked if resource == "pods"]
    assert sorted(looked) == ["b", "p0", "p1", "p2"]
    assert await world.inquirer.round() == PACE.idle


async def test_a_pod_that_is_gone_meanwhile_is_no_trouble(world):
    world.pods.clear()
    world.quota("2", "2")
    assert await world.looked() == ()
