"""The demo of gangs: pods that wait for each other are released together, by priority, without blocking others.

Every step is observed where a user would look: pods, events and /explain?gang=.
"""

from collections.abc import Sequence

from sandbox.client import events
from sandbox.client.objects import DEPLOYMENTS, PODS, Object
from sandbox.cluster import ClusterSpec
from sandbox.demo.stage import Demo, Stage

NAMESPACE = "gang-demo"


class GangDemo:
    """The steps in order. Each gang is a Deployment of its name."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._api = stage.cluster.client
        self._narrator = stage.narrator

    async def run_steps(self) -> None:
        """Run all steps. Raises NotSeenError at the first one that is not observed."""
        await self._wait()
        await self._go()
        await self._replace()
        await self._line_up()
        await self._pass_over()
        await self._take_turns()

    async def _wait(self) -> None:
        self._narrator.step("A gang of three has two pods and waits for the third")
        self._narrator.paragraph(
            "train's pods have `podGroup: train` and `minAvailable: 3`, and the scheduling gate plimsoll.io/gang. Each "
            "takes 5 of a node's 8 cores, so that no node has room for two."
        )
        await self._stage.apply("gang-demo/00-namespace.yaml")
        await self._stage.apply("gang-demo/10-train.yaml")
        pods = await self._narrator.wait_for("both pods are gated", lambda: self._held("train", 2))
        self._narrator.print_output(_condition(pods[0]))
        await self._show_event(
            "an event on each reports what is missing", "train", "GangIncomplete"
        )
        await self._show_event(
            "another event reports why the gang cannot complete", "train", "GangCannotComplete"
        )
        self._narrator.suggest(f"curl '{self._url('train')}'")

    async def _go(self) -> None:
        self._narrator.step("The third pod is created, and all three are released together")
        await self._scale("train", 3)
        pods = await self._narrator.wait_for(
            "all three run, each on its own node", lambda: self._running("train", 3)
        )
        for pod in pods:
            self._narrator.print_output(
                f"{pod['metadata']['name']} is on {pod['spec']['nodeName']}"
            )
        await self._narrator.wait_for(
            "/explain reports Scheduled", lambda: self._is("train", "Scheduled")
        )

    async def _replace(self) -> None:
        self._narrator.step(
            "A pod is lost: the gang stays admitted, and the replacement is not gated"
        )
        lost = (await self._pods("train"))[0]["metadata"]
        self._narrator.print_action(f"kubectl -n {NAMESPACE} delete pod {lost['name']}")
        await self._api.delete(PODS, lost["name"], NAMESPACE, grace=0)
        await self._narrator.wait_for(
            "the replacement runs", lambda: self._running("train", 3, but=str(lost["uid"]))
        )

    async def _line_up(self) -> None:
        self._narrator.step(
            "Two more gangs of three without capacity; the second has the higher priority"
        )
        await self._stage.apply("gang-demo/20-later.yaml")
        await self._narrator.wait_for("all pods of later are gated", lambda: self._held("later", 3))
        await self._stage.apply("gang-demo/30-urgent.yaml")
        await self._narrator.wait_for(
            "all pods of urgent are gated", lambda: self._held("urgent", 3)
        )
        await self._show_event("an event reports why urgent waits", "urgent", "GangWaitsForRoom")

    async def _pass_over(self) -> None:
        self._narrator.step("A gang that fits on no node, with the highest priority")
        await self._stage.apply("gang-demo/40-giant.yaml")
        await self._show_event("an event warns that it is too large", "giant", "GangTooLarge")
        line = await self._narrator.wait_for(
            "/explain shows the queue",
            lambda: self._line("giant", "urgent", "later"),
        )
        self._narrator.print_output(line)

    async def _take_turns(self) -> None:
        self._narrator.step("Capacity becomes free twice: giant does not block the others")
        await self._end("train")
        await self._narrator.wait_for(
            "all pods of urgent run, though giant is before it", lambda: self._running("urgent", 3)
        )
        await self._narrator.wait_for(
            "no pod of later was released meanwhile", lambda: self._held("later", 3)
        )
        await self._end("urgent")
        await self._narrator.wait_for("all pods of later run", lambda: self._running("later", 3))
        await self._narrator.wait_for("giant still waits", lambda: self._held("giant", 2))
        await self._narrator.wait_for(
            "/explain reports TooLarge", lambda: self._is("giant", "TooLarge")
        )
        self._narrator.suggest(f"curl '{self._url('giant')}'")

    async def _show_event(self, what: str, gang: str, reason: str) -> None:
        """Wait for the event with this reason on every pod of a gang, and print it."""
        event = await self._narrator.wait_for(what, lambda: self._event(gang, reason))
        self._narrator.print_output(f"{event['reason']}: {event['message']}")

    async def _event(self, gang: str, reason: str) -> Object | None:
        names = [str(pod["metadata"]["name"]) for pod in await self._pods(gang)]
        matching = [await events.find(self._api, NAMESPACE, name, reason) for name in names]
        return matching[0] if matching and all(matching) else None

    async def _scale(self, name: str, replicas: int) -> None:
        self._narrator.print_action(
            f"kubectl -n {NAMESPACE} scale deployment/{name} --replicas={replicas}"
        )
        await self._api.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, NAMESPACE)

    async def _end(self, name: str) -> None:
        self._narrator.print_action(f"kubectl -n {NAMESPACE} delete deployment {name}")
        await self._api.delete(DEPLOYMENTS, name, NAMESPACE)

    async def _pods(self, gang: str) -> Sequence[Object]:
        """Return the pods that are not being deleted."""
        pods = (await self._api.list(PODS, NAMESPACE, labels=f"podGroup={gang}")).items
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    async def _held(self, gang: str, count: int) -> Sequence[Object] | None:
        """Return the pods of a gang if there are this many and each is gated."""
        pods = await self._pods(gang)
        held = all(pod["spec"].get("schedulingGates") for pod in pods)
        return pods if held and len(pods) == count else None

    async def _running(self, gang: str, count: int, *, but: str = "") -> Sequence[Object] | None:
        """Return the pods of a gang if this many run, the named one not among them."""
        pods = await self._pods(gang)
        run = all(pod["status"].get("phase") == "Running" for pod in pods)
        gone = but not in {pod["metadata"]["uid"] for pod in pods}
        return pods if run and gone and len(pods) == count else None

    async def _is(self, gang: str, state: str) -> bool | None:
        page = await self._stage.get_explain(f"?gang={NAMESPACE}/{gang}")
        return True if page.get("state") == state else None

    async def _line(self, *gangs: str) -> str | None:
        """Return the queue if it holds exactly these gangs in this order."""
        pages = [await self._stage.get_explain(f"?gang={NAMESPACE}/{gang}") for gang in gangs]
        ranks = [page.get("rank", {}) for page in pages]
        if [(rank.get("place"), rank.get("of")) for rank in ranks] != [
            (place, len(gangs)) for place in range(1, len(gangs) + 1)
        ]:
            return None
        return "\n".join(
            f"{rank['place']}. {gang}, groupPriority {rank['groupPriority']}: {page['message']}"
            for gang, rank, page in zip(gangs, ranks, pages, strict=True)
        )

    def _url(self, gang: str) -> str:
        return f"{self._stage.cluster.endpoints.ops}/explain?gang={NAMESPACE}/{gang}"


def _condition(pod: Object) -> str:
    """Return why a pod is not scheduled, as `kubectl describe` shows it."""
    (scheduled,) = (
        condition
        for condition in pod["status"]["conditions"]
        if condition["type"] == "PodScheduled"
    )
    return f"{scheduled['reason']}: {scheduled['message']}"


DEMO = Demo(
    title="Plimsoll: gangs, on a cluster of three nodes on this machine",
    make_spec=lambda folder: ClusterSpec(dir=folder, gangs=True),
    run_steps=lambda stage: GangDemo(stage).run_steps(),
    up_command="up --gangs",
)
