"""The demo of actions on nodes: a condition, a soft and a hard taint, the limit, and recovery, without an extender.

Every step is observed where a user would look: nodes, pods, events and the policy's status.
"""

from sandbox.client import events
from sandbox.client.objects import NODES, PODS, POLICIES, Object
from sandbox.cluster import ClusterSpec
from sandbox.demo.stage import Demo, Stage

NAMESPACE = "node-actions-demo"
POLICY = "disk-errors"
CONDITION = "plimsoll.io/DiskErrors"
TAINT = f"plimsoll.io/{NAMESPACE}.{POLICY}"


class NodeActionsDemo:
    """The steps in order."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._api = stage.cluster.client
        self._narrator = stage.narrator

    async def run_steps(self) -> None:
        """Run all steps. Raises NotSeenError at the first one that is not observed."""
        await self._soft()
        await self._hard()
        await self._limit()
        await self._recover()

    async def _soft(self) -> None:
        self._narrator.step("node-b's disk reports errors: a condition and a soft taint")
        self._narrator.paragraph(
            "disk-errors has the annotation `plimsoll.io/actions: condition,taint`. Its pods need no label, and kube-scheduler no "
            "extender: taints concern every pod."
        )
        for node, errors in (("node-a", 0), ("node-b", 3), ("node-c", 0)):
            self._write(node, errors)
        await self._stage.apply("node-actions-demo/00-namespace.yaml")
        await self._stage.apply("node-actions-demo/10-policy.yaml")
        condition = await self._narrator.wait_for(
            f"node-b has the condition {CONDITION}", lambda: self._condition("node-b", "True")
        )
        self._narrator.suggest("kubectl describe node node-b")
        self._narrator.print_output(
            f"{condition['type']}  {condition['status']}  {condition['reason']}"
        )
        self._narrator.print_output(condition["message"])
        await self._narrator.wait_for(
            "node-b has the taint with effect PreferNoSchedule",
            lambda: self._tainted("node-b", "PreferNoSchedule"),
        )
        await self._stage.create(_pod("prefers-others"))
        pod = await self._narrator.wait_for(
            "a pod without a policy runs elsewhere", lambda: self._running("prefers-others")
        )
        self._narrator.print_output(f"prefers-others is on {pod['spec']['nodeName']}")

    async def _hard(self) -> None:
        self._narrator.step("The taint becomes hard: NoSchedule")
        annotation = "plimsoll.io/taint-effect"
        self._narrator.print_action(
            f"kubectl -n {NAMESPACE} annotate taspolicy {POLICY} {annotation}=NoSchedule"
        )
        edit = {"metadata": {"annotations": {annotation: "NoSchedule"}}}
        await self._api.patch(POLICIES, POLICY, edit, NAMESPACE)
        await self._narrator.wait_for(
            "the effect is NoSchedule", lambda: self._tainted("node-b", "NoSchedule")
        )
        await self._stage.create(_pod("only-node-b", node="node-b"))
        event = await self._narrator.wait_for(
            "a pod that requires node-b waits", lambda: self._rejection("only-node-b")
        )
        self._narrator.print_output(f"{event['reason']}: {event['message']}")

    async def _limit(self) -> None:
        self._narrator.step("Every disk reports errors: the limit keeps the cluster usable")
        for node in ("node-a", "node-c"):
            self._write(node, 1)
        condition = await self._narrator.wait_for(
            "the policy's condition NodeLimitReached is True", self._limited
        )
        self._narrator.print_output(condition["message"])
        await self._narrator.wait_for(
            "all nodes have the condition", lambda: self._conditions("node-a", "node-b", "node-c")
        )
        event = await self._narrator.wait_for("an event reports it", self._limit_event)
        self._narrator.print_output(f"{event['reason']}: {event['message']}")
        await self._narrator.wait_for(
            "only node-b has the taint", lambda: self._tainted("node-b", "NoSchedule", alone=True)
        )

    async def _recover(self) -> None:
        self._narrator.step("The disks recover: taints go, and kube-scheduler requeues the pod")
        for node in ("node-a", "node-b", "node-c"):
            self._write(node, 0)
        await self._narrator.wait_for(
            "no node has the taint", lambda: self._tainted("", "", alone=True)
        )
        pod = await self._narrator.wait_for(
            "the pod that waited runs", lambda: self._running("only-node-b")
        )
        self._narrator.print_output(f"only-node-b is on {pod['spec']['nodeName']}")
        condition = await self._narrator.wait_for(
            "the condition is False", lambda: self._condition("node-b", "False")
        )
        self._narrator.print_output(
            f"{condition['type']}  {condition['status']}  {condition['reason']}"
        )

    def _write(self, node: str, errors: int) -> None:
        self._stage.write(node, "disk.prom", f"node_disk_errors {errors}")

    async def _condition(self, node: str, status: str) -> Object | None:
        conditions = (await self._api.get(NODES, node))["status"]["conditions"]
        ours = (
            condition
            for condition in conditions
            if condition["type"] == CONDITION and condition["status"] == status
        )
        return next(ours, None)

    async def _conditions(self, *nodes: str) -> bool | None:
        conditions = [await self._condition(node, "True") for node in nodes]
        return True if all(conditions) else None

    async def _tainted(self, node: str, effect: str, *, alone: bool = False) -> bool | None:
        """Return whether a node has our taint with this effect, and with `alone` no other node has one."""
        wanted = {(node, effect)} if node else set()
        tainted = {
            (node_object["metadata"]["name"], taint["effect"])
            for node_object in (await self._api.list(NODES)).items
            for taint in node_object["spec"].get("taints") or ()
            if taint["key"] == TAINT and (alone or node_object["metadata"]["name"] == node)
        }
        return True if tainted == wanted else None

    async def _limited(self) -> Object | None:
        policy_status = (await self._api.get(POLICIES, POLICY, NAMESPACE)).get("status", {})
        conditions = policy_status.get("conditions", [])
        reached = (c for c in conditions if c["type"] == "NodeLimitReached")
        return next((c for c in reached if "not on 2 more" in c["message"]), None)

    async def _limit_event(self) -> Object | None:
        return await events.find(self._api, NAMESPACE, POLICY, "NodeLimitReached")

    async def _rejection(self, pod: str) -> Object | None:
        return await events.find(self._api, NAMESPACE, pod, "FailedScheduling", saying=TAINT)

    async def _running(self, name: str) -> Object | None:
        pod = await self._api.get(PODS, name, NAMESPACE)
        return pod if pod["status"].get("phase") == "Running" else None


def _pod(name: str, *, node: str = "") -> Object:
    """Return a pod without a policy, that may require a node."""
    selector = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**selector, "containers": [{"name": "web", "image": "busybox:1.37"}]},
    }


DEMO = Demo(
    title="Plimsoll: taints and conditions, on a cluster of three nodes on this machine",
    make_spec=lambda folder: ClusterSpec(dir=folder, node_actions=True),
    run_steps=lambda stage: NodeActionsDemo(stage).run_steps(),
    up_command="up --node-actions",
)
