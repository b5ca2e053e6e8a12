"""Random worlds: nodes, policies and pods change between a decision and what is written for it.

No exception leaves a writer, nothing is written for what the evaluator knows to be gone, and in the end nodes have what the
remaining policies set. `PLIMSOLL_SEED` repeats one world.
"""

import asyncio
import os
import random
import time

import pytest

from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import PolicyKey
from evaluator.core.readings.column import Reading
from evaluator.core.signals import ProblemsReported
from evaluator.core.sources.answer import PolledAnswer
from evaluator.core.sources.prometheus import Prometheus
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

NODES, POLICIES = [f"n{number}" for number in range(5)], [f"p{number}" for number in range(4)]
POD_PATH = "/api/v1/namespaces/default/pods"
STOP = "/api/v1/namespaces/default/configmaps"
SEEDS = [int(os.environ["PLIMSOLL_SEED"])] if "PLIMSOLL_SEED" in os.environ else [1, 2, 3]


class Watched:
    """Records writes for objects that the evaluator knows to be gone; answers late, and refuses some."""

    def __init__(self, rng):
        self.rng = rng
        self.cluster = None
        self.steady = False
        self.wrong = []
        self.written = set()

    def install(self, monkeypatch):
        for name, about in WRITES.items():
            monkeypatch.setattr(Kube, name, self._checked(name, getattr(Kube, name), about))
        usual = Kube._write

        async def late(kube, *given, **more):
            if not self.steady:
                await asyncio.sleep(self.rng.uniform(0, 0.03))
                if self.rng.random() < 0.05:
                    raise KubeError(self.rng.choice([0, 403, 409, 422, 500]), "drawn")
            return await usual(kube, *given, **more)

        monkeypatch.setattr(Kube, "_write", late)

    def _checked(self, name, usual, about):
        def call(kube, *given, **more):
            kind, key = about(*given)
            self.written.add(name)
            if kind is not None and key not in getattr(self.cluster, kind).objects:
                self.wrong.append((name, key))
            return usual(kube, *given, **more)

        return call


def of_event(body):
    """The policy or node that an Event is about; pods may be gone when the Event on their eviction is written."""
    about = body["involvedObject"]
    if about["kind"] == "TASPolicy":
        return "policies", PolicyKey(about["namespace"], about["name"])
    return ("nodes", about["name"]) if about["kind"] == "Node" else (None, "")


WRITES = {
    "apply_node_labels": lambda apply: ("nodes", apply.node),
    "apply_node_annotations": lambda node, *_: ("nodes", node.metadata.name),
    "apply_node_conditions": lambda name, *_: ("nodes", name),
    "patch_node": lambda name, *_: ("nodes", name),
    "patch_policy_status": lambda key, _status: ("policies", key),
    "create_event": of_event,
    "create_subresource": lambda namespace, pod, *_: ("pods", (namespace, pod)),
    "annotate_pod": lambda namespace, pod, *_: ("pods", (namespace, pod)),
}
"""What a write is about: a kind of the cache, and a key."""


async def fetched(_source, _metric):
    """Prometheus: every metric is 1 everywhere."""
    return PolledAnswer(dict.fromkeys(NODES, Reading(1, 1.0, time.monotonic())))


class RandomWorld:
    """The cluster, as an administrator changes it."""

    def __init__(self, api, evaluator, rng):
        self.api = api
        self.evaluator = evaluator
        self.rng = rng
        self.nodes, self.policies, self.number = set(), set(), 0
        self.stopped = False

    async def begin(self):
        await self.api.policies()
        for name in NODES:
            await self.add_node(name)
        for name in POLICIES:
            await self.add_policy(name)

    async def step(self):
        """Make one change."""
        changes = [self.node, self.sick, self.sick, self.policy, self.edit, self.edit, self.pod]
        changes += [self.waiting, self.gang, self.problem, self.stop]
        await self.rng.choice(changes)()

    async def node(self):
        name = self.rng.choice(NODES)
        if name not in self.nodes:
            await self.add_node(name)
        elif len(self.nodes) > 2:
            self.nodes.remove(name)
            await self.api.delete(f"/api/v1/nodes/{name}")

    async def add_node(self, name):
        self.nodes.add(name)
        await self.api.node(name)
        room = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
        await self.api.merge(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": room}})
        await self.evaluator.sick(name, self.rng.choice(["True", "False"]))

    async def sick(self):
        name = self.rng.choice(sorted(self.nodes))
        await self.evaluator.sick(name, self.rng.choice(["True", "False"]))

    async def policy(self):
        name = self.rng.choice(POLICIES)
        if name not in self.policies:
            await self.add_policy(name)
        else:
            self.policies.remove(name)
            await self.api.delete(f"{TASPOLICIES.format('default')}/{name}")

    async def add_policy(self, name):
        self.policies.add(name)
        risk = {"metricname": "plimsoll_risk", "operator": "GreaterThan", "target": 5}
        rules = {"deschedule": {"rules": [SICK, risk]}, "dontschedule": {"rules": [SICK]}}
        body = policy_body(name, self.annotations(name), **rules)
        await self.evaluator.make_policy(body)

    def annotations(self, name):
        drawn = {
            "plimsoll.io/actions": self.rng.choice(["label,taint,condition", "label", "taint,condition", None]),
            "plimsoll.io/taint-effect": self.rng.choice(["NoSchedule", "PreferNoSchedule", None]),
            "plimsoll.io/max-nodes": "100%",
            "plimsoll.io/condition-type": f"plimsoll.io/{name.capitalize()}",
            "plimsoll.io/memory": self.rng.choice(["30d", "2h", None]),
            "plimsoll.io/memory-observed": self.rng.choice(["count", None]),
            "plimsoll.io/enforcement": self.rng.choice(["observe", None, None]),
        }  # fmt: skip
        return {key: text for key, text in drawn.items() if text is not None}

    async def edit(self):
        if self.policies:
            name = self.rng.choice(sorted(self.policies))
            before = dict.fromkeys(("plimsoll.io/memory", "plimsoll.io/enforcement", "plimsoll.io/actions"))  # fmt: skip
            body = {"metadata": {"annotations": before | self.annotations(name)}}
            await self.api.merge(f"{TASPOLICIES.format('default')}/{name}", body)

    async def pod(self):
        self.number += 1
        name, policy = f"pod-{self.number}", self.rng.choice(POLICIES)
        await self.api.pod(name, self.rng.choice(NODES), policy=policy, owner=policy)

    async def waiting(self):
        self.number += 1
        name, policy = f"waits-{self.number}", self.rng.choice(POLICIES)
        await self.api.pod(name, policy=policy)
        message = f"0/3 nodes are available: 3 violating {policy}: node_condition_Sick Equals 1."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}  # fmt: skip
        await self.api.merge(f"{POD_PATH}/{name}/status", {"status": {"conditions": [condition]}})

    async def gang(self):
        self.number += 1
        labels = {"podGroup": f"gang-{self.number}", "minAvailable": "2", "telemetry-policy": self.rng.choice(POLICIES)}  # fmt: skip
        gate = {"schedulingGates": [{"name": "plimsoll.io/gang"}]}
        for number in range(self.rng.choice([1, 2])):
            meta = {"name": f"gang-{self.number}-{number}", "labels": labels}
            spec = {"containers": [{"name": "c", "image": "none"}], **gate}
            await self.api.call("POST", POD_PATH, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})  # fmt: skip

    async def problem(self):
        condition = ProblemCondition("KernelDeadlock", self.rng.random() < 0.5, "Reason", "", 1.0)
        event = ProblemEvent("kernel", "Hung", "hangs", 1)
        report = ProblemsReported(self.rng.choice(NODES), Problems((condition,), (event,)))
        self.evaluator.core.signals.publish(report)

    async def stop(self):
        self.stopped = not self.stopped
        mode = self.rng.choice(["freeze", "release"])
        body = {"metadata": {"name": "plimsoll-stop"}, "data": {f"default.{self.rng.choice(POLICIES)}": f'{{"mode": "{mode}"}}'}}  # fmt: skip
        if self.stopped:
            await self.api.call("POST", STOP, body)
        else:
            await self.api.delete(f"{STOP}/plimsoll-stop")

    async def leftovers(self):
        """What nodes have of policies that are gone."""
        found = []
        for node in (await self.api.get("/api/v1/nodes"))["items"]:
            labels = {key for key in node["metadata"].get("labels", {}) if key in POLICIES}
            taints = {one["key"].rpartition("default.")[2] for one in node["spec"].get("taints", ()) if "plimsoll" in one["key"]}  # fmt: skip
            kinds = {one["type"].removeprefix("plimsoll.io/").lower() for one in node["status"]["conditions"] if one["type"].startswith("plimsoll.io/")}  # fmt: skip
            found += sorted((labels | taints | kinds) - self.policies)
        return found


@pytest.mark.parametrize("seed", SEEDS)
async def test_writers_survive_whatever_changes_between_decision_and_write(
    api, connect, tmp_path, monkeypatch, authority, log_lines, seed
):
    lines, rng = log_lines("logfmt"), random.Random(seed)
    monkeypatch.setattr(Prometheus, "fetch", fetched)
    watched = Watched(rng)
    watched.install(monkeypatch)
    settings = every_feature(tmp_path, authority.issue("evaluator"))
    evaluator = RunningEvaluator(api, await connect(api.url), tmp_path, **settings)
    watched.cluster = evaluator.core.cluster
    world = RandomWorld(api, evaluator, rng)
    await world.begin()
    evaluator.start()
    try:
        for _ in range(150):
            await world.step()
            await asyncio.sleep(rng.uniform(0, 0.04))
        watched.steady = True
        if world.stopped:
            await world.stop()

        async def clean():
            return not await world.leftovers()

        await eventually(clean, 60.0)
    finally:
        await evaluator.stop()
    raised = {part: count for part, count in evaluator.errors().items() if count}
    assert not raised, "\n".join(line for line in lines() if "internal error" in line)
    assert watched.wrong == []
    assert watched.written >= {"apply_node_labels", "patch_node", "patch_policy_status", "create_event"}  # fmt: skip
