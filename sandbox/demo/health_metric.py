"""The health-metric demo: a node becomes unhealthy, pods avoid it, leave it, and return when it recovers.

Every step is observed where a user would look: objects, events and the evaluator's responses.
"""

import shutil
from collections.abc import Iterable

from sandbox import manifests
from sandbox.client import events
from sandbox.client.objects import NODES, PODS, POLICIES, Object
from sandbox.cluster import ClusterSpec
from sandbox.demo import shell
from sandbox.demo.stage import Demo, Stage
from sandbox.demo.steps import RiskDemo, TypoDemo
from sandbox.scheduler.extender import Extender, ExtenderSpec

NAMESPACE = "health-metric-demo"
POLICY = "demo-policy"
ENFORCEMENT = "plimsoll.io/enforcement"


class HealthMetricDemo:
    """The steps in order."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._cluster = stage.cluster
        self._api = stage.cluster.client
        self._narrator = stage.narrator
        self._risk = RiskDemo(stage, NAMESPACE)

    async def run_steps(self) -> None:
        """Run all steps. Raises NotSeenError at the first one that is not observed."""
        await self._begin()
        await TypoDemo(self._stage, NAMESPACE).run_steps()
        await self._refuse()
        sick, pod = await self._place()
        await self._leave(sick, pod)
        await self._recover(sick)
        await self._observe()
        await self._measure()
        await self._derive()
        await self._risk.run_steps()

    async def _begin(self) -> None:
        self._narrator.step("A file on each node has its health; a policy acts on it")
        for node, health in (("node-a", 0), ("node-b", 1), ("node-c", 0)):
            self._write(node, health)
            self._risk.use(node, cores=2)
        await self._stage.apply("health-metric-demo/00-namespace.yaml")
        await self._stage.apply("health-metric-demo/10-policy.yaml")
        self._narrator.paragraph(
            "demo-policy: no new pods where health_metric is 1 or 2; pods are evicted where it is 2."
        )
        await self._narrator.wait_for(
            "the evaluator has each node's health",
            lambda: self._health_is({"node-a": 0, "node-b": 1, "node-c": 0}),
        )

    async def _refuse(self) -> None:
        self._narrator.step("node-b is at 1: the extender rejects it")
        self._narrator.paragraph("A pod that requires node-b waits, with an event:")
        await self._stage.create(_pinned("node-b"))
        event = await self._narrator.wait_for(
            "the pod is rejected, with the policy's reason", lambda: self._refusal("only-node-b")
        )
        self._narrator.suggest(f"kubectl -n {NAMESPACE} describe pod only-node-b")
        self._narrator.print_output(f"{event['reason']}: {event['message']}")
        self._narrator.suggest(f"kubectl -n {NAMESPACE} delete pod only-node-b")
        await self._api.delete(PODS, "only-node-b", NAMESPACE, grace=0)

    async def _place(self) -> tuple[str, Object]:
        self._narrator.step("A Deployment with the policy is placed on a healthy node")
        await self._stage.apply("health-metric-demo/20-deployment.yaml")
        pod = await self._narrator.wait_for(
            "its pod runs, not on node-b", lambda: self._stage.running_pod(NAMESPACE, "node-b")
        )
        node = str(pod["spec"]["nodeName"])
        self._narrator.print_output(f"{pod['metadata']['name']} is on {node}")
        return node, pod

    async def _leave(self, sick: str, pod: Object) -> None:
        self._narrator.step(
            f"{sick} becomes unhealthy: its metric changes to 2 while the pod runs there"
        )
        self._write(sick, 2)
        label = f"{POLICY}=violating"
        await self._narrator.wait_for(
            f"{sick} is labelled {label}", lambda: self._labelled(sick, {POLICY: "violating"})
        )
        self._narrator.suggest(f"kubectl get nodes -l {label}")
        name = str(pod["metadata"]["name"])
        await self._narrator.wait_for(
            f"the pod {name} is evicted", lambda: self._stage.is_gone(NAMESPACE, pod)
        )
        other = ({"node-a", "node-c"} - {sick}).pop()
        fresh = await self._narrator.wait_for(
            f"its replacement runs on {other}, the only healthy node left",
            lambda: self._stage.running_pod(NAMESPACE, "node-b", sick),
        )
        event = await self._narrator.wait_for(
            "an event reports the reason",
            lambda: events.find(self._api, NAMESPACE, name, "PolicyViolated"),
        )
        self._narrator.print_output(f"{event['reason']}: {event['message']}")
        self._narrator.print_output(
            f"{fresh['metadata']['name']} is on {fresh['spec']['nodeName']}"
        )

    async def _recover(self, sick: str) -> None:
        self._narrator.step(f"{sick} recovers, and node-b too")
        self._write("node-b", 0)
        self._write(sick, 0)
        await self._narrator.wait_for(
            f"the label is removed from {sick}", lambda: self._unlabelled(sick)
        )
        policy = await self._narrator.wait_for(
            "the policy's status is Compliant", lambda: self._complies(POLICY)
        )
        self._narrator.suggest(f"kubectl -n {NAMESPACE} get taspolicies")
        self._narrator.print_output(
            f"{policy['status']['compliance']}: {policy['status']['message']}"
        )

    async def _observe(self) -> None:
        self._narrator.step("A policy is observed before it is enforced")
        await self._stage.apply("examples/observed-policy.yaml")
        self._write("node-b", 1)
        told = await self._narrator.wait_for(
            "its status lists what enforcement would change",
            lambda: self._enforced("tried-policy", "False", saying="node-b"),
        )
        self._narrator.print_output(told)
        await self._narrator.wait_for(
            "the extender accepts node-b for its pods",
            lambda: self._accepts("tried-policy", "node-b"),
        )
        self._narrator.print_action(
            f"kubectl -n {NAMESPACE} annotate --overwrite taspolicy tried-policy {ENFORCEMENT}=enforce"
        )
        edit = {"metadata": {"annotations": {ENFORCEMENT: "enforce"}}}
        await self._api.patch(POLICIES, "tried-policy", edit, NAMESPACE)
        await self._narrator.wait_for(
            "one edit enforces it: the extender rejects node-b",
            lambda: self._refuses("tried-policy", "node-b"),
        )
        self._write("node-b", 0)

    async def _measure(self) -> None:
        self._narrator.step("The same with a metric of the host: memory_MemAvailable_bytes")
        await self._stage.apply("examples/memory-policy.yaml")
        free_memory = await self._narrator.wait_for(
            "every agent reports this machine's free memory", self._free_memory
        )
        for node, value in free_memory.items():
            self._narrator.print_output(f"{node}  {value / 2**20:,.0f} MiB available")
        key = "telemetry.aware.scheduling.memory-policy/memory"
        await self._narrator.wait_for(
            "each has more than 256 MiB and gets the label",
            lambda: self._all_labelled(free_memory, {key: "roomy"}),
        )
        self._narrator.print_output(f"{key}=roomy")
        self._narrator.suggest(
            f"curl {self._cluster.endpoints.ops}/explain/{NAMESPACE}/memory-policy"
        )

    async def _derive(self) -> None:
        self._narrator.step("A recording rule computes a metric on each node")
        for node in self._cluster.spec.nodes:
            self._fill(node, free=60)
        shipped = manifests.folder() / "examples/scratch/rules.yaml"
        self._narrator.print_action(f"cp {shell.path(shipped)} {shell.path(self._cluster.rules)}/")
        shutil.copy(shipped, self._cluster.rules)
        for line in shipped.read_text().splitlines():
            if line.lstrip().startswith(("- record", "expr")):
                self._narrator.print_output(line.strip())
        await self._stage.apply("examples/scratch/policy.yaml")
        await self._narrator.wait_for(
            "the evaluator has every node's ratio",
            lambda: self._reads("scratch-policy", "scratch_free_ratio", 0.6),
        )
        self._fill("node-a", free=4)
        await self._narrator.wait_for(
            "the extender rejects node-a",
            lambda: self._refuses("scratch-policy", "node-a"),
        )
        directory = shell.path(self._cluster.node_metrics("node-a"))
        self._narrator.suggest(
            f"{shell.program('plimsoll-agent')} eval --collector.textfile.directory={directory} "
            "'scratch_free_bytes / scratch_size_bytes'"
        )

    def _fill(self, node: str, *, free: int) -> None:
        free_bytes, size_bytes = f"scratch_free_bytes {free}e9", "scratch_size_bytes 100e9"
        self._stage.write(node, "scratch.prom", free_bytes, size_bytes)

    def _write(self, node: str, health: int) -> None:
        self._stage.write(node, "text.prom", f"node_health_metric {health}")

    async def _explained(self, policy: str) -> Object:
        return await self._stage.get_explain(f"/{NAMESPACE}/{policy}")

    async def _health_is(self, expected: dict[str, float]) -> bool | None:
        nodes = (await self._explained(POLICY)).get("nodes", {})
        readings = {
            name: node["readings"]["health_metric"]["value"] for name, node in nodes.items()
        }
        return True if readings == expected else None

    async def _reads(self, policy: str, metric: str, expected: float) -> bool | None:
        """Return whether the evaluator has this value for every node."""
        nodes = (await self._explained(policy)).get("nodes", {})
        values = [node["readings"][metric]["value"] for node in nodes.values()]
        complete = len(values) == len(self._cluster.spec.nodes)
        return True if complete and set(values) == {expected} else None

    async def _refuses(self, policy: str, node: str) -> bool | None:
        """Return whether the extender rejects a node for a pod of this policy."""
        pod = {
            "metadata": {
                "name": "asked",
                "namespace": NAMESPACE,
                "labels": {"telemetry-policy": policy},
            },
            "spec": {"containers": []},
        }
        names = [{"metadata": {"name": name}} for name in self._cluster.spec.nodes]
        async with Extender(
            ExtenderSpec(f"{self._cluster.endpoints.extender}/scheduler")
        ) as extender:
            return True if node not in (await extender.filter(pod, names)).names else None

    async def _accepts(self, policy: str, node: str) -> bool | None:
        return None if await self._refuses(policy, node) else True

    async def _enforced(self, policy: str, status: str, *, saying: str) -> str | None:
        """Return the message of the condition Enforced, once it has this status and text."""
        policy_object = await self._api.get(POLICIES, policy, NAMESPACE)
        for condition in policy_object.get("status", {}).get("conditions", []):
            if (condition["type"], condition["status"]) == ("Enforced", status):
                message = str(condition["message"])
                return message if saying in message else None
        return None

    async def _free_memory(self) -> dict[str, float] | None:
        nodes = (await self._explained("memory-policy")).get("nodes", {})
        values = {
            n: node["readings"]["memory_MemAvailable_bytes"]["value"] for n, node in nodes.items()
        }
        return values if values and all(value for value in values.values()) else None

    async def _refusal(self, pod: str) -> Object | None:
        reason = f"violating {POLICY}"
        return await events.find(self._api, NAMESPACE, pod, "FailedScheduling", saying=reason)

    async def _labelled(self, node: str, labels: dict[str, str]) -> bool | None:
        current = (await self._api.get(NODES, node))["metadata"].get("labels", {})
        return True if labels.items() <= current.items() else None

    async def _all_labelled(self, nodes: Iterable[str], labels: dict[str, str]) -> bool | None:
        labelled = [await self._labelled(node, labels) for node in nodes]
        return True if all(labelled) else None

    async def _unlabelled(self, node: str) -> bool | None:
        labels = (await self._api.get(NODES, node))["metadata"].get("labels", {})
        return True if POLICY not in labels else None

    async def _complies(self, policy: str) -> Object | None:
        policy_object = await self._api.get(POLICIES, policy, NAMESPACE)
        return (
            policy_object
            if policy_object.get("status", {}).get("compliance") == "Compliant"
            else None
        )


def _pinned(node: str) -> Object:
    """Return a pod with the policy's label and a node selector."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"only-{node}",
            "namespace": NAMESPACE,
            "labels": {"telemetry-policy": POLICY},
        },
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [
                {
                    "name": "web",
                    "image": "busybox:1.37",
                    "resources": {"limits": {"telemetry/scheduling": "1"}},
                }
            ],
        },
    }


DEMO = Demo(
    title="Plimsoll: the health metric, on a cluster of three nodes on this machine",
    make_spec=lambda folder: ClusterSpec(dir=folder, scorers=("safe",)),
    run_steps=lambda stage: HealthMetricDemo(stage).run_steps(),
    up_command="up --scorers=safe",
)
