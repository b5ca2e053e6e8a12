"""Steps of the health metric's demo: an overloaded node, and a misspelt metric."""

import asyncio
import json
import shlex
from collections.abc import Mapping
from typing import Any

from sandbox.client import events
from sandbox.client.objects import PODS, POLICIES, Object
from sandbox.demo import shell
from sandbox.demo.stage import Stage
from sandbox.programs import evaluator_subcommand
from sandbox.scheduler.extender import Extender, ExtenderSpec

_CPU_MEAN = "node_cpu_used_mean_5m_cores"
_POLICY = "typo-policy"
_RIGHT, _WRONG = "health_metric", "health_metrc"
_FOUND = "MetricsFound"


class RiskDemo:
    """A node with free requests has a measured use that is too high. `use` sets low use before the step."""

    def __init__(self, stage: Stage, namespace: str) -> None:
        self._stage = stage
        self._cluster = stage.cluster
        self._api = stage.cluster.client
        self._narrator = stage.narrator
        self._namespace = namespace

    async def run_steps(self) -> None:
        """Run all steps. Raises NotSeenError at the first one that is not observed."""
        self._narrator.step("The scorer `safe` uses measured usage instead of requests")
        self._narrator.paragraph(
            "Pods request little CPU, so by requests node-a is almost empty, but 7.2 of its 8 cores are in use. kube-scheduler "
            "calls `safe` for all pods, also without a policy."
        )
        self.use("node-a", cores=7.2)
        small = {"requests": {"cpu": "500m"}}
        await self._narrator.wait_for(
            "safe rejects node-a for a pod of half a core",
            lambda: self._unsafe("node-a", small),
        )
        await self._stage.create(self._pod("only-node-a", small, node="node-a"))
        event = await self._narrator.wait_for(
            "a pod that requires node-a waits",
            lambda: events.find(
                self._api, self._namespace, "only-node-a", "FailedScheduling", saying="overload"
            ),
        )
        self._narrator.print_output(f"{event['reason']}: {event['message']}")
        await self._stage.create(self._pod("anywhere", small))
        pod = await self._narrator.wait_for(
            "a pod that does not is placed on another node", self._settled
        )
        self._narrator.print_output(f"anywhere is on {pod['spec']['nodeName']}")
        risks = await self._narrator.wait_for("/explain shows the risk of each node", self._risks)
        for node, (free, risk) in risks.items():
            self._narrator.print_output(
                f"{node}  {free / 1000:.1f} cores free, risk of overload {risk:.1%}"
            )
        url = f"{self._cluster.endpoints.ops}/explain?pod={self._namespace}/only-node-a"
        self._narrator.suggest(f"curl '{url}'")

    def use(self, node: str, *, cores: float) -> None:
        """Set the use of a node, in place of what its agent would measure of this machine."""
        use = {
            _CPU_MEAN: cores,
            "node_cpu_used_stddev_5m_cores": 0.4,
            "node_memory_used_mean_5m_bytes": 4e9,
            "node_memory_used_stddev_5m_bytes": 1e8,
        }
        self._stage.write(node, "usage.prom", *(f"{name} {value}" for name, value in use.items()))

    async def _unsafe(self, node: str, resources: Object) -> bool | None:
        """Return whether `safe` rejects a node for such a pod."""
        names = [{"metadata": {"name": name}} for name in self._cluster.spec.nodes]
        spec = ExtenderSpec(f"{self._cluster.endpoints.extender}/scorers/safe")
        async with Extender(spec) as extender:
            answer = await extender.filter(self._pod("asked", resources), names)
        return True if node in answer.refused else None

    async def _settled(self) -> Object | None:
        """Return the unconstrained pod once it runs on a node that is not overloaded."""
        pod = await self._api.get(PODS, "anywhere", self._namespace)
        running = pod["status"].get("phase") == "Running"
        return pod if running and pod["spec"]["nodeName"] != "node-a" else None

    async def _risks(self) -> dict[str, tuple[float, float]] | None:
        """Return each node's free CPU in milli-CPU, and its overload risk with the waiting pod."""
        page = await self._stage.get_explain(f"?pod={self._namespace}/only-node-a")
        nodes = page.get("nodes", {})
        facts = {name: node["extenders"]["safe"]["facts"] for name, node in nodes.items()}
        return {
            name: (node_facts["cpu.free"], node_facts["cpu.risk"])
            for name, node_facts in facts.items()
        } or None

    def _pod(self, name: str, resources: Object, *, node: str = "") -> Object:
        """Return a pod without a policy, optionally with a node selector."""
        where = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self._namespace},
            "spec": {
                **where,
                "containers": [{"name": "web", "image": "busybox:1.37", "resources": resources}],
            },
        }


class TypoDemo:
    """A policy with a misspelt metric is caught before it is applied, and reported after."""

    def __init__(self, stage: Stage, namespace: str) -> None:
        self._stage = stage
        self._api = stage.cluster.client
        self._narrator = stage.narrator
        self._namespace = namespace

    async def run_steps(self) -> None:
        """Run the step. Raises NotSeenError if an effect is not observed."""
        self._narrator.step("A typo is caught: a policy names health_metrc")
        self._narrator.paragraph("`check` compares its metrics with those that Plimsoll ships:")
        policy = self._policy(_WRONG)
        document = shlex.quote(json.dumps(policy))
        program = shell.program("plimsoll-evaluator")
        self._narrator.print_action(f"echo {document} | {program} check -")
        warning = await self._narrator.wait_for(
            "a warning names the right metric", lambda: self._warning(policy)
        )
        self._narrator.print_output(warning)
        self._narrator.paragraph(
            "Applied all the same, it changes nothing, and its status names the mistake:"
        )
        self._narrator.print_action(f"echo {document} | kubectl apply -f -")
        await self._api.create(POLICIES, policy)
        condition = await self._narrator.wait_for(
            f"{_FOUND} is False and names the metric that nodes have",
            lambda: self._condition("False", saying=_RIGHT),
        )
        self._narrator.print_output(f"{condition['reason']}: {condition['message']}")
        event = await self._narrator.wait_for(
            "an event reports it, once",
            lambda: events.find(self._api, self._namespace, _POLICY, "MetricNotFound"),
        )
        self._narrator.print_output(f"{event['reason']}: {event['message']}")
        patch = {"spec": self._policy(_RIGHT)["spec"]}
        self._narrator.print_action(
            f"kubectl -n {self._namespace} patch taspolicy {_POLICY} --type=merge -p {shlex.quote(json.dumps(patch))}"
        )
        await self._api.patch(POLICIES, _POLICY, patch, self._namespace)
        await self._narrator.wait_for(
            f"corrected, the condition {_FOUND} is True", lambda: self._condition("True")
        )

    def _policy(self, metric: str) -> Object:
        rules = [{"metricname": metric, "operator": "GreaterThan", "target": 1}]
        return {
            "apiVersion": POLICIES.api_version,
            "kind": "TASPolicy",
            "metadata": {"name": _POLICY, "namespace": self._namespace},
            "spec": {"strategies": {"dontschedule": {"rules": rules}}},
        }

    async def _warning(self, policy: Object) -> str | None:
        """Return the warning that `check` prints; None if it prints none."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *evaluator_subcommand("check", "-"), stdin=pipe, stdout=pipe
        )
        printed, _ = await process.communicate(json.dumps(policy).encode())
        lines = (line.strip() for line in printed.decode().splitlines())
        return next((line for line in lines if line.startswith("warning: ")), None)

    async def _condition(self, status: str, *, saying: str = "") -> Mapping[str, Any] | None:
        policy = await self._api.get(POLICIES, _POLICY, self._namespace)
        conditions = policy.get("status", {}).get("conditions", ())
        return next(
            (
                condition
                for condition in conditions
                if (condition["type"], condition["status"]) == (_FOUND, status)
                and saying in condition["message"]
            ),
            None,
        )
