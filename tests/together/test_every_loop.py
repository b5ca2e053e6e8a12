"""Every loop of the evaluator, found from the wiring, is given an object, a reading or an answer of the API server that raises.

It fails what it is about: the traceback is logged once, the error is counted, and the loop and what else it handles go on.
"""

import asyncio
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.kube.client import Kube
from evaluator.core.loop import followers
from evaluator.core.model import feasibility
from evaluator.core.policy import decide, parse
from evaluator.core.readings.column import Reading
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.signals import Answered, ProblemsReported
from evaluator.core.sources.answer import PolledAnswer
from evaluator.core.sources.prometheus import Prometheus
from evaluator.features.evictions.plan import _PolicyPlanner
from evaluator.features.gangs import diagnoser
from evaluator.features.gangs import events as gang_events
from evaluator.features.gangs.core import decide as gangs
from evaluator.features.gangs.core.capacity import CapacityTracker
from evaluator.features.history import plan as transitions
from evaluator.features.history import readers, recorder
from evaluator.features.history.pods import PodDecisions
from evaluator.features.history.series import Series
from evaluator.features.labels.feature import LabelConflicts
from evaluator.features.memory import controller as memory
from evaluator.features.node_actions.controller import Taints
from evaluator.features.node_actions.plan import ActingPolicy
from evaluator.features.problems.plan import ProblemConditions
from evaluator.features.requeue import plan as requeue
from evaluator.features.scorers.learning import OutcomeTracker
from evaluator.features.scorers.snapshotter import Snapshotter
from evaluator.features.status import controller as statuses
from evaluator.features.status import plan as events
from evaluator.features.status.pod_controller import PolicyPodController
from evaluator.features.stop import entries
from plimsoll.process import memory as heap
from sandbox import manifests
from tests.together.running import (
    SICK,
    TASPOLICIES,
    RunningEvaluator,
    eventually,
    every_feature,
    policy_body,
)
from wire.problems import ProblemCondition, ProblemEvent, Problems

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.features(
        "labels",
        "memory",
        "node_actions",
        "problems",
        "evictions",
        "requeue",
        "status",
        "scorers",
        "gangs",
        "custom_metrics",
        "history",
        "pages",
        "stop",
        "extender",
    ),
]

ANNOTATIONS = {
    "plimsoll.io/actions": "label,taint,condition",
    "plimsoll.io/taint-effect": "NoSchedule",
    "plimsoll.io/max-nodes": "100%",
    "plimsoll.io/memory": "30d",
}
NAMED = ("key", "policy", "pod", "metadata", "name", "node", "gang", "event_key", "rejected", "involvedObject")  # fmt: skip
PODS = "/api/v1/namespaces/default/pods"


ONE_PASS = {"_of_pod"}
"""What runs once, at the start: the even objects may come first."""


class OddError(Exception):
    """What nobody expected."""


def names(value, which, depth=3):
    """Whether a value is, or is about, an object called `even` or `odd`."""
    if isinstance(value, str):
        last = value.rpartition("/")[2].removeprefix("default.")
        return last in {which, f"node-{which}"} or last.startswith((f"{which}-", f"{which}_"))
    if not depth or isinstance(value, (bytes, list)):
        return False
    if type(value) is tuple or hasattr(value, "_fields"):
        parts = value
    elif isinstance(value, dict):
        parts = [value.get(name) for name in NAMED]
    else:
        parts = [getattr(value, name, None) for name in NAMED]
    return any(names(one, which, depth - 1) for one in parts if one is not None)


@dataclass
class Spy:
    """Raises where a function is about the odd object; counts the calls about the even one since."""

    raised: int = 0
    others: int = 0

    def replace(self, monkeypatch, owner, name):
        usual = getattr(owner, name)

        def odd(*given, **more):
            every = (*given, *more.values())
            if any(names(one, "odd") for one in every):
                self.raised += 1
                raise OddError(name)
            after = self.raised or name in ONE_PASS
            self.others += bool(after) and any(names(one, "even") for one in every)
            return usual(*given, **more)

        monkeypatch.setattr(owner, name, odd)


async def fetched(_source, metric):
    """Prometheus: metrics called even or odd are 1 everywhere."""
    reading = Reading(1, 1.0, time.monotonic())
    return PolledAnswer(dict.fromkeys(("node-even", "node-odd", "node-free"), reading))


class World:
    """An evaluator with every feature, and twins of everything: one called even, one called odd."""

    def __init__(self, api, kube, folder, pair):
        self.api = api
        self.evaluator = RunningEvaluator(api, kube, folder, **every_feature(folder, pair))
        self.turn = 0

    async def fill(self):
        await self.api.policies()
        await self.api.call("POST", "/api/v1/namespaces/default/secrets", manifests.history())
        for node in ("node-even", "node-odd", "node-free"):
            await self.api.node(node)
            room = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
            await self.api.merge(f"/api/v1/nodes/{node}/status", {"status": {"allocatable": room}})
        for node in ("node-even", "node-odd"):
            await self.evaluator.sick(node)
        for name in ("even", "odd"):
            kind = {"plimsoll.io/condition-type": f"plimsoll.io/{name.capitalize()}"}
            polled = {"metricname": f"{name}_metric", "operator": "GreaterThan", "target": 5}
            risk = {"metricname": "plimsoll_risk", "operator": "GreaterThan", "target": 5}
            rules = {
                "deschedule": {"rules": [SICK, polled, risk]},
                "dontschedule": {"rules": [SICK]},
            }
            await self.evaluator.make_policy(policy_body(name, ANNOTATIONS | kind, **rules))

    async def poke(self):
        """Change something about both twins, of every kind."""
        self.turn += 1
        api, core = self.api, self.evaluator.core
        for name in ("even", "odd"):
            node = f"node-{name}"
            await self.evaluator.sick(node, "True" if self.turn % 2 else "False")
            await api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"turn": str(self.turn)}}})  # fmt: skip
            turn = {"metadata": {"annotations": {"example.com/turn": str(self.turn)}}}
            await api.merge(f"{TASPOLICIES.format('default')}/{name}", turn)
            await api.pod(f"{name}-{self.turn}", node, policy=name, owner=name)
            await self.waiting(f"{name}-w{self.turn}", name)
            for number in range(2):
                await self.gated(f"{name}-g{self.turn}-{number}", f"{name}-{self.turn}", 2)
            await self.gated(f"{name}-h{self.turn}", f"{name}-h{self.turn}", 3)
            condition = ProblemCondition("KernelDeadlock", bool(self.turn % 2), f"R{self.turn}", "", 1.0)  # fmt: skip
            event = ProblemEvent("kernel", f"Hung{self.turn}", "hangs", 1)
            core.signals.publish(ProblemsReported(node, Problems((condition,), (event,))))
            decisions = core.loop.latest
            for key in decisions.policies:
                if key.name == name:
                    pod = f"default/{name}-w{self.turn}"
                    core.signals.publish(Answered(pod, key, decisions, 3, {node: "violating"}))
        await self.stop()

    async def waiting(self, name, policy):
        """A pod that a policy rejected."""
        await self.api.pod(name, policy=policy)
        message = f"0/3 nodes are available: 3 violating {policy}: node_condition_Sick Equals 1."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}  # fmt: skip
        await self.api.merge(f"{PODS}/{name}/status", {"status": {"conditions": [condition]}})

    async def gated(self, name, group, minimum):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"podGroup": group, "minAvailable": str(minimum)}, "ownerReferences": [await self.api.controller(group)]},
            "spec": {"containers": [{"name": "c", "image": "none"}], "schedulingGates": [{"name": "plimsoll.io/gang"}]},
        }  # fmt: skip
        await self.api.call("POST", PODS, body)

    async def stop(self):
        """An entry of the stop for policies that do not exist."""
        body = {"metadata": {"name": "plimsoll-stop"}, "data": {"default.even-x": f"turn {self.turn}"}}  # fmt: skip
        if self.turn == 1:
            await self.api.call("POST", "/api/v1/namespaces/default/configmaps", body)
        else:
            await self.api.merge("/api/v1/namespaces/default/configmaps/plimsoll-stop", body)


@pytest.fixture
async def build(api, connect, tmp_path, monkeypatch, authority):
    monkeypatch.setattr(Prometheus, "fetch", fetched)
    timings = diagnoser.DiagnosisTimings(grace=0.0, interval=0.2, pause=0.0, idle=0.1)
    monkeypatch.setattr(diagnoser, "DiagnosisTimings", lambda: timings)
    kube, pair = await connect(api.url), authority.issue("evaluator")
    made = []

    async def make():
        """Build it: functions that are replaced afterwards may be in use."""
        made.append(World(api, kube, tmp_path, pair))
        await made[0].fill()
        await made[0].poke()
        return made[0]

    yield make
    for one in made:
        await one.evaluator.stop()


CASES = [
    # loop, what raises where it is about the odd object
    ("core: watch_policies", parse, "parse"),
    ("core: Reflector", ClusterCache, "_node_fields_changed"),
    ("core: Reflector", ClusterCache, "_pod_changed"),
    ("core: Reflector", PodCache, "_changed"),
    ("core: DecisionLoop", decide, "_decision"),
    ("core: DecisionLoop", followers, "_log_changed"),
    ("core: DecisionLoop", followers.PolicyGauges, "_figures"),
    ("core: Poller", Prometheus, "fetch"),
    ("core: Poller", PolledReadings, "answer"),
    ("labels: NodeWriter", Kube, "apply_node_labels"),
    ("labels: NodeWriter", LabelConflicts, "compare"),
    ("memory: NodeWriter", Kube, "apply_node_annotations"),
    ("memory: NodeWriter", memory, "_assigned"),
    ("memory: NodeWriter", memory, "remembered"),
    ("node_actions: NodeActionPlanner", ActingPolicy, "plan"),
    ("node_actions: NodeWriter", Kube, "patch_node"),
    ("node_actions: NodeWriter", Kube, "apply_node_conditions"),
    ("node_actions: NodeWriter", Taints, "compare"),
    ("problems: NodeWriter", ProblemConditions, "__getitem__"),
    ("problems: ProblemEventController", Kube, "create_event"),
    ("evictions: EvictionController", Kube, "create_subresource"),
    ("evictions: EvictionController", _PolicyPlanner, "_why_stays"),
    ("evictions: EvictionController", feasibility, "is_feasible"),
    ("requeue: RequeueController", Kube, "annotate_pod"),
    ("requeue: RequeueController", requeue, "_rejected"),
    ("status: StatusController", Kube, "patch_policy_status"),
    ("status: StatusController", statuses, "status_of"),
    ("status: PolicyEventRecorder", events, "reported_state"),
    ("status: PolicyPodController", PolicyPodController, "_count_one"),
    ("status: PolicyPodController", PolicyPodController, "_compare"),
    ("gangs: GangController", Kube, "patch_pod"),
    ("gangs: GangController", gangs._Cycle, "_look"),
    ("gangs: GangController", CapacityTracker, "_has"),
    ("gangs: Diagnoser", Kube, "read_controller"),
    ("gangs: GangEventRecorder", gang_events.GangEventRecorder, "_compare"),
    ("scorers: RewardController", OutcomeTracker, "changed"),
    ("scorers: RewardController", Snapshotter, "_stated"),
    ("history: Recorder", Series, "_add"),
    ("history: Recorder", transitions, "_edit"),
    ("history: Recorder", recorder, "_of_pod"),
    ("history: PodDecisions", PodDecisions, "_take"),
    ("history: PodDecisions", PodDecisions, "_look_at"),
    ("history: HistoryFile", readers, "written"),
    ("status: ActionEvents", Kube, "create_event"),
]

STATM = SimpleNamespace(read_text=heap._STATM.read_text)
ONCE = [
    # loop, what raises a few times, whatever it is about
    ("core: Reflector", Kube, "list_page"),
    ("core: Leader", Kube, "read_lease"),
    ("core: watch_policies", Kube, "write_lease"),
    ("core: return_unused", STATM, "read_text"),
    ("stop: Reflector", Kube, "watch"),
    ("custom_metrics: CustomMetricsPort", Kube, "list_page"),
    ("scorers: RewardController", Kube, "read_config_map"),
    ("history: HistoryFile", readers, "_some"),
    ("history: Reflector", Kube, "watch"),
    ("history: SharedActions", Kube, "patch_secret"),
]


def restarted(lines):
    return [line for line in lines if "the whole loop" in line]


async def test_every_loop_has_a_case(build):
    world = await build()
    loops = {name for name, _ in world.evaluator.service.loops()}
    assert loops == {loop for loop, *_ in (*CASES, *ONCE)}


@pytest.mark.parametrize(
    ("loop", "owner", "name"), CASES, ids=[f"{loop}-{name}" for loop, _, name in CASES]
)
async def test_what_one_object_raises_costs_no_other_anything(
    build, monkeypatch, log_lines, loop, owner, name
):
    spy, lines = Spy(), log_lines("logfmt")
    spy.replace(monkeypatch, owner, name)
    world = await build()
    world.evaluator.start()

    async def went_on():
        await world.poke()
        for _ in range(20):
            if spy.raised and spy.others and sum(world.evaluator.errors().values()):
                return True
            await asyncio.sleep(0.05)
        return False

    await eventually(went_on, 60.0)
    logged = lines()
    assert not world.evaluator.ended
    assert restarted(logged) == []
    tracebacks = sum(line.count("Traceback") for line in logged if "OddError" in line)
    parts = [part for part, count in world.evaluator.errors().items() if count]
    assert 1 <= tracebacks <= len(parts), "each part logs it once"


@pytest.mark.parametrize(
    ("loop", "owner", "name"), ONCE, ids=[f"{loop}-{name}" for loop, _, name in ONCE]
)
async def test_loop_that_raises_is_started_again(build, monkeypatch, loop, owner, name):
    usual, raised = getattr(owner, name), []

    def odd(*given, **more):
        if len(raised) < 2:
            raised.append(name)
            raise OddError(name)
        return usual(*given, **more)

    monkeypatch.setattr(owner, name, odd)
    monkeypatch.setattr(heap, "_STATM", STATM)
    world = await build()
    world.evaluator.start()

    async def works():
        await world.poke()
        labels = await world.api.labels("node-even")
        return len(raised) == 2 and "even" in labels

    await eventually(works, 60.0)
    assert not world.evaluator.ended
    assert sum(world.evaluator.errors().values()) >= 1


async def test_stop_whose_reading_raises_freezes_all_policies(build, monkeypatch):
    monkeypatch.setattr(entries, "_entry", lambda *_: fail())
    world = await build()
    world.evaluator.start()
    await world.poke()
    stops = world.evaluator.core.contributions.stops

    async def frozen():
        return not any(stops().permit(key) for key in world.evaluator.core.cluster.policies.objects)

    await eventually(frozen)


def fail():
    raise OddError
