"""A demo step: a node with free requests whose measured use is too high."""

from sandbox.client import events
from sandbox.client.objects import PODS, Object
from sandbox.demo.stage import Stage
from sandbox.scheduler.extender import Extender, ExtenderSpec

CPU_MEAN = "node_cpu_used_mean_5m_cores"


class RiskDemo:
    """The step; `use` sets low use before it starts."""

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
            CPU_MEAN: cores,
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
