"""The signals demo: a problem from the kernel's record to the node's return, each step with its time."""

import shlex
import time

from plimsoll import rfc3339
from sandbox.client import events
from sandbox.client.client import ApiError
from sandbox.client.objects import NODES, PODS, Object
from sandbox.cluster import ClusterSpec
from sandbox.demo import shell
from sandbox.demo.stage import Demo, Stage
from sandbox.inject import inject
from sandbox.scheduler.extender import Extender, ExtenderSpec

NAMESPACE, POLICY = "signals-demo", "deadlock"
CONDITION = "KernelDeadlock"
TAINT = f"plimsoll.io/{NAMESPACE}.{POLICY}"


class SignalsDemo:
    """The steps in order."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._api = stage.cluster.client
        self._narrator = stage.narrator

    async def run_steps(self) -> None:
        """Run all steps. Raises NotSeenError at the first one that is not observed."""
        pod = await self._begin()
        sick = str(pod["spec"]["nodeName"])
        await self._fault(sick, pod)
        await self._temporary(sick)
        await self._repair(sick)

    async def _begin(self) -> Object:
        self._narrator.step("A Deployment runs; its policy names a problem of the kernel's log")
        for manifest in ("00-namespace.yaml", "10-policy.yaml", "20-deployment.yaml"):
            await self._stage.apply(f"signals-demo/{manifest}")
        pod = await self._narrator.wait_for("its pod runs", lambda: self._running(""))
        self._narrator.print_output(f"{pod['metadata']['name']} is on {pod['spec']['nodeName']}")
        await self._narrator.wait_for(
            "every node has the condition KernelDeadlock=False", self._all_healthy
        )
        return pod

    async def _fault(self, sick: str, pod: Object) -> None:
        self._narrator.step(f"The kernel of {sick} reports that a task of the runtime hangs")
        self._inject(sick, "hung")
        await self._narrator.wait_for(
            f"the extender refuses {sick}", lambda: self._refuses(sick, refused=True)
        )
        await self._narrator.wait_for(
            f"{sick} has the taint", lambda: self._tainted(sick, tainted=True)
        )
        name, uid = str(pod["metadata"]["name"]), pod["metadata"]["uid"]
        await self._narrator.wait_for(f"the pod {name} is evicted", lambda: self._gone(name, uid))
        fresh = await self._narrator.wait_for(
            "its replacement runs on another node", lambda: self._running(sick)
        )
        self._narrator.print_output(
            f"{fresh['metadata']['name']} is on {fresh['spec']['nodeName']}"
        )
        condition = await self._narrator.wait_for(
            f"the node condition {CONDITION} is True", lambda: self._condition(sick, "True")
        )
        self._narrator.suggest(f"kubectl describe node {sick}")
        self._narrator.print_output(f"{condition['reason']}: {condition['message']}")

    async def _temporary(self, sick: str) -> None:
        self._narrator.step("A temporary problem is an Event, and moves nothing")
        self._inject(sick, "ext4")
        event = await self._narrator.wait_for(
            "an Event on the node reports it",
            lambda: events.find(self._api, "default", sick, "Ext4Error"),
        )
        self._narrator.print_output(f"{event['reason']}: {event['message']}")

    async def _repair(self, sick: str) -> None:
        self._narrator.step(f"{sick} is repaired, and a person says so")
        self._narrator.paragraph(
            "`kubectl plimsoll ack` sets this annotation with your name. A reboot ends the problem too."
        )
        key, now = f"plimsoll.io/ack.{CONDITION}", rfc3339.seconds(time.time())
        self._narrator.print_action(
            f"kubectl annotate --overwrite node {sick} {key}={shlex.quote(f'{now} operator')}"
        )
        edit = {"metadata": {"annotations": {key: f"{now} operator"}}}
        await self._api.patch(NODES, sick, edit)
        await self._narrator.wait_for(
            f"the extender accepts {sick}", lambda: self._refuses(sick, refused=False)
        )
        await self._narrator.wait_for(
            "the taint is gone", lambda: self._tainted(sick, tainted=False)
        )
        condition = await self._narrator.wait_for(
            f"the node condition {CONDITION} is False", lambda: self._condition(sick, "False")
        )
        self._narrator.print_output(f"{condition['reason']}: {condition['message']}")

    def _inject(self, node: str, fault: str) -> None:
        folder = self._stage.cluster.dir
        self._narrator.print_action(
            f"{shell.program('plimsoll-sandbox')} inject --dir={shell.path(folder)} {node} {fault}"
        )
        for text in inject(folder, node, fault):
            self._narrator.print_output(text)

    async def _running(self, excluded: str) -> Object | None:
        for pod in (await self._api.list(PODS, NAMESPACE, labels="app=demo")).items:
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get(
                "deletionTimestamp"
            ):
                return pod if pod["spec"]["nodeName"] != excluded else None
        return None

    async def _gone(self, name: str, uid: str) -> bool | None:
        try:
            pod = await self._api.get(PODS, name, NAMESPACE)
        except ApiError as error:
            return True if error.status == 404 else None
        left = pod["metadata"]["uid"] != uid or "deletionTimestamp" in pod["metadata"]
        return True if left else None

    async def _conditions(self) -> dict[str, Object]:
        """Return the condition of each node that has it."""
        return {
            node["metadata"]["name"]: condition
            for node in (await self._api.list(NODES)).items
            for condition in node["status"]["conditions"]
            if condition["type"] == CONDITION
        }

    async def _condition(self, node: str, status: str) -> Object | None:
        condition = (await self._conditions()).get(node)
        return condition if condition and condition["status"] == status else None

    async def _all_healthy(self) -> bool | None:
        found = await self._conditions()
        healthy = [node for node, condition in found.items() if condition["status"] == "False"]
        return True if len(healthy) == len(self._stage.cluster.spec.nodes) else None

    async def _tainted(self, node: str, *, tainted: bool) -> bool | None:
        taints = (await self._api.get(NODES, node))["spec"].get("taints") or ()
        return True if any(taint["key"] == TAINT for taint in taints) == tainted else None

    async def _refuses(self, node: str, *, refused: bool) -> bool | None:
        pod = {
            "metadata": {
                "name": "asked",
                "namespace": NAMESPACE,
                "labels": {"telemetry-policy": POLICY},
            },
            "spec": {"containers": []},
        }
        names = [{"metadata": {"name": name}} for name in self._stage.cluster.spec.nodes]
        endpoint = f"{self._stage.cluster.endpoints.extender}/scheduler"
        async with Extender(ExtenderSpec(endpoint)) as extender:
            found = node not in (await extender.filter(pod, names)).names
        return True if found == refused else None


DEMO = Demo(
    title="Plimsoll: from the kernel's record to the node's return, on three nodes on this machine",
    make_spec=lambda folder: ClusterSpec(dir=folder, node_actions=True, problems=True),
    run_steps=lambda stage: SignalsDemo(stage).run_steps(),
    up_command="up --node-actions --problems",
)
