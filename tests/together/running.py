"""The evaluator with all its features on the sandbox's API server, in the process of the test. Policies read node conditions."""

import asyncio
import contextlib

from evaluator.app import Service
from evaluator.config import Settings
from evaluator.features.node_actions.limit import NodeLimit

TASPOLICIES = "/apis/telemetry.intel.com/v1alpha1/namespaces/{}/taspolicies"
SICK = {"metricname": "node_condition_Sick", "operator": "Equals", "target": 1}


def policy_body(name, annotations=None, *, namespace="default", metric=None, **strategies):
    """A policy that nodes violate while their condition Sick, or another metric, is 1; by default dontschedule."""
    rule = {**SICK, "metricname": metric} if metric else SICK
    strategies = strategies or {"dontschedule": {"rules": [rule]}}
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
        "spec": {"strategies": strategies},
    }


def every_feature(folder, pair):
    """Settings with every feature on; certificate and key: `pair`."""
    return {
        "taints": True,
        "conditions": True,
        "max_acted_nodes": NodeLimit(100, percent=True),
        "evict": True,
        "evict_period": 0.2,
        "evict_needs_room": False,
        "problem_conditions": frozenset({"KernelDeadlock"}),
        "problem_events": True,
        "gangs": True,
        "gang_timeout": 0.2,
        "scorers": ("safe,reward",),
        "metrics_source": ("prometheus",),
        "prometheus_url": "http://127.0.0.1:9",
        "history_file": str(folder / "history"),
        "leader_elect": True,
        "custom_metrics_port": 1,
        "cert": str(pair[0]),
        "key": str(pair[1]),
        "sync_period": 0.2,
        "stale_after": 60.0,
    }


class RunningEvaluator:
    """One replica that leads, and what the cluster has."""

    def __init__(self, api, kube, folder, **settings):
        self.api = api
        self.kube = kube
        given = {"agent_port": 0, "port": 0, "ops_port": 0, "leader_elect": False}
        given |= {"unsafe": True, "lease_namespace": "default", "bind_address": "127.0.0.1"}
        self.service = Service(Settings(**given | settings), kube)
        self.core = self.service.core
        self.loops = []

    def start(self):
        self.loops = self.service.start_loops()

    async def stop(self):
        for loop in self.loops:
            loop.cancel()
        await asyncio.gather(*self.loops, return_exceptions=True)

    @property
    def ended(self):
        """The loops that ended, which must not happen."""
        return [loop for loop in self.loops if loop.done()]

    def sample(self, name, **labels):
        """The value of a metric of the evaluator; 0 without one."""
        return self.core.metrics.registry.get_sample_value(name, labels) or 0.0

    def errors(self):
        """Part → internal errors that were counted."""
        families = self.core.metrics.registry.collect()
        family = next(one for one in families if one.name == "plimsoll_internal_errors")
        return {s.labels["part"]: s.value for s in family.samples if s.name.endswith("_total")}

    async def make_policy(self, body):
        path = TASPOLICIES.format(body["metadata"]["namespace"])
        return await self.api.call("POST", path, body)

    async def status(self, name, namespace="default"):
        """The status of a policy."""
        found = await self.api.get(f"{TASPOLICIES.format(namespace)}/{name}")
        return found.get("status", {})

    async def condition(self, name, kind="Valid", namespace="default"):
        """The message of a condition of a policy's status; empty without it."""
        status = await self.status(name, namespace)
        found = [c for c in status.get("conditions", ()) if c["type"] == kind]
        return found[0]["message"] if found else ""

    async def sick(self, node, status="True"):
        """Report the condition Sick of a node, by a client of its own."""
        body = {"status": {"conditions": [{"type": "Sick", "status": status}]}}
        body |= {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
        await self.api.apply(f"/api/v1/nodes/{node}/status", body, "doctor", force=True)


async def eventually(check, patience=20.0):
    """Await `check()` until it returns something true, and return that."""
    async with asyncio.timeout(patience):
        while True:
            with contextlib.suppress(KeyError, IndexError):
                if found := await check():
                    return found
            await asyncio.sleep(0.02)
