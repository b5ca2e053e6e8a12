"""The signals demo: faults from the kernel's record to the node's return, each step with its time."""

import shlex
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from plimsoll import rfc3339
from sandbox.client import events
from sandbox.client.objects import NODES, Object
from sandbox.cluster import ClusterSpec
from sandbox.demo import shell
from sandbox.demo.stage import Demo, Stage
from sandbox.inject import inject, repair
from sandbox.scheduler.extender import Extender, ExtenderSpec

NAMESPACE, POLICY = "signals-demo", "faults"
CONDITION = "KernelDeadlock"
TAINT = f"plimsoll.io/{NAMESPACE}.{POLICY}"
STEPS = ("refusal", "taint", "eviction", "repair", "return")
RULES = """\
groups:
  - name: gpus
    rules:
      - {record: gpu_level, expr: max by (instance) (node_gpu_health)}
      - {record: gpu_level_cause, expr: node_gpu_health > 0}
"""


@dataclass(frozen=True)
class Fault:
    """A fault to inject, and what ends it: the state of the machine, or a person."""

    name: str
    heading: str
    arguments: tuple[str, ...] = ()
    repaired: str = ""
    """How the machine is repaired; empty if a person acknowledges the problem."""


FAULTS = (
    Fault("hung", "a task of the container runtime hangs"),
    Fault("read-only", "a file system becomes read-only", (), "the file system is writable again"),
    Fault("xid", "a GPU falls off the bus", ("79",), "the driver says that nothing must be done"),
    Fault("ext4", "a file system has an error", (), "e2fsck repairs the file system"),
)


@dataclass
class Times:
    """Seconds from the kernel's record of a fault to each step."""

    fault: str
    begin: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)

    def mark(self, step: str) -> None:
        """Record that a step was observed now."""
        self.seconds[step] = time.monotonic() - self.begin

    def row(self) -> str:
        """Return the line of the table."""
        return f"{self.fault:<12}" + "".join(f"{self.seconds[step]:10.2f}" for step in STEPS)


class SignalsDemo:
    """The steps in order."""

    def __init__(self, stage: Stage, extender: Extender) -> None:
        self._stage = stage
        self._extender = extender
        self._api = stage.cluster.client
        self._narrator = stage.narrator

    async def run_steps(self) -> None:
        """Run all steps. Raises NotSeenError at the first one that is not observed."""
        pod = await self._begin()
        times = []
        for fault in FAULTS:
            measured, pod = await self._fault(fault, pod)
            times.append(measured)
        await self._temporary(str(pod["spec"]["nodeName"]))
        self._narrator.step("Seconds from the kernel's record")
        self._narrator.print_output("fault       " + "".join(f"{step:>10}" for step in STEPS))
        for measured in times:
            self._narrator.print_output(measured.row())

    async def _begin(self) -> Object:
        self._narrator.step("A Deployment runs; its policy names problems of nodes")
        rules = self._stage.cluster.rules / "gpus.yaml"
        self._narrator.print_action(shell.write(RULES.splitlines(), rules))
        rules.write_text(RULES)
        for manifest in ("00-namespace.yaml", "10-policy.yaml", "20-deployment.yaml"):
            await self._stage.apply(f"signals-demo/{manifest}")
        pod = await self._narrator.wait_for(
            "its pod runs", lambda: self._stage.running_pod(NAMESPACE)
        )
        self._narrator.print_output(f"{pod['metadata']['name']} is on {pod['spec']['nodeName']}")
        await self._narrator.wait_for(
            "every node has the condition KernelDeadlock=False", self._all_healthy
        )
        return pod

    async def _fault(self, fault: Fault, pod: Object) -> tuple[Times, Object]:
        """Let the node of a pod have a fault, and repair it. Returns the times, and the pod's replacement."""
        sick, name = str(pod["spec"]["nodeName"]), str(pod["metadata"]["name"])
        self._narrator.step(f"{sick}: {fault.heading}")
        times = Times(fault.name)
        self._inject(sick, fault.name, *fault.arguments)

        async def observe(step: str, what: str, look: Callable[[], Awaitable[bool | None]]) -> None:
            await self._narrator.wait_for(what, look)
            times.mark(step)

        await observe("refusal", f"the extender refuses {sick}", lambda: self._refuses(sick, refused=True))  # fmt: skip
        await observe("taint", f"{sick} has the taint", lambda: self._tainted(sick, tainted=True))
        await observe(
            "eviction", f"the pod {name} is evicted", lambda: self._stage.is_gone(NAMESPACE, pod)
        )
        fresh = await self._narrator.wait_for(
            "its replacement runs on another node", lambda: self._stage.running_pod(NAMESPACE, sick)
        )
        self._narrator.print_output(
            f"{fresh['metadata']['name']} is on {fresh['spec']['nodeName']}"
        )
        await (self._repair(sick, fault) if fault.repaired else self._acknowledge(sick))
        times.mark("repair")
        await self._narrator.wait_for(
            f"the extender accepts {sick}", lambda: self._refuses(sick, refused=False)
        )
        await observe("return", "the taint is gone", lambda: self._tainted(sick, tainted=False))
        return times, fresh

    async def _repair(self, sick: str, fault: Fault) -> None:
        self._narrator.paragraph(f"Now {fault.repaired}; no acknowledgement is needed.")
        self._narrator.print_action(self._command("repair", sick, fault.name))
        repair(self._stage.cluster.dir, sick, fault.name)

    async def _acknowledge(self, sick: str) -> None:
        condition = await self._narrator.wait_for(
            f"the node condition {CONDITION} is True", lambda: self._condition(sick, "True")
        )
        self._narrator.suggest(f"kubectl describe node {sick}")
        self._narrator.print_output(f"{condition['reason']}: {condition['message']}")
        self._narrator.paragraph(
            "No file of the kernel says that it is over: a reboot ends it, or a person. `kubectl plimsoll ack` sets this "
            "annotation with your name."
        )
        key, now = f"plimsoll.io/ack.{CONDITION}", rfc3339.seconds(time.time())
        self._narrator.print_action(
            f"kubectl annotate --overwrite node {sick} {key}={shlex.quote(f'{now} operator')}"
        )
        edit = {"metadata": {"annotations": {key: f"{now} operator"}}}
        await self._api.patch(NODES, sick, edit)

    async def _temporary(self, node: str) -> None:
        self._narrator.step("A temporary problem is an Event, and moves nothing")
        self._inject(node, "oops")
        event = await self._narrator.wait_for(
            "an Event on the node reports it",
            lambda: events.find(self._api, "default", node, "KernelOops"),
        )
        self._narrator.print_output(f"{event['reason']}: {event['message']}")

    def _inject(self, node: str, fault: str, *arguments: str) -> None:
        self._narrator.print_action(self._command("inject", node, fault, *arguments))
        for text in inject(self._stage.cluster.dir, node, fault, arguments):
            self._narrator.print_output(text)

    def _command(self, *words: str) -> str:
        folder = shell.path(self._stage.cluster.dir)
        return f"{shell.program('plimsoll')} {words[0]} --dir={folder} {' '.join(words[1:])}"  # fmt: skip

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
        found = node not in (await self._extender.filter(pod, names)).names
        return True if found == refused else None


async def _run(stage: Stage) -> None:
    endpoint = f"{stage.cluster.endpoints.extender}/scheduler"
    async with Extender(ExtenderSpec(endpoint)) as extender:
        await SignalsDemo(stage, extender).run_steps()


DEMO = Demo(
    title="Plimsoll: from the kernel's record to the node's return, on three nodes on this machine",
    make_spec=lambda folder: ClusterSpec(
        dir=folder,
        node_actions=True,
        problems=True,
        # The default is one pod of a policy in 10 seconds: the next fault begins earlier here.
        evaluator_flags=("--evictPeriod=1s",),
    ),
    run_steps=_run,
    up_command="up --node-actions --problems",
)
