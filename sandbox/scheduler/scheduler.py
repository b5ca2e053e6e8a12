"""Schedules pods as kube-scheduler does in what matters here: queueing, extender calls, preemption, messages."""

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import aiohttp

from plimsoll import logs, rfc3339
from plimsoll.wakeup import WakeUp
from sandbox.client.client import STRATEGIC, ApiError, Client
from sandbox.client.events import EventRecorder
from sandbox.client.informer import Informer, following
from sandbox.client.objects import BUDGETS, NODES, PODS, Object
from sandbox.scheduler import constraints, fitting, neighbours, preemption, queue
from sandbox.scheduler.extender import ExtenderError
from sandbox.scheduler.extenders import Extenders
from sandbox.scheduler.queue import SchedulingQueue

log = logs.get(__name__)

SCHEDULER = "default-scheduler"

_TAINT_SCORE = 30
"""Weight 3 of TaintToleration, and 10 for the best node as in answers of extenders."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod is assigned to this node."""

    node: str


@dataclass(frozen=True, slots=True)
class Refused:
    """No node is feasible, and why. `resolvable`: the nodes that preemption may help."""

    message: str
    resolvable: tuple[Object, ...] = ()


class Scheduler:
    """The sandbox's scheduler. `attempts` counts the attempts of each existing pod, by `namespace/name`."""

    def __init__(
        self,
        client: Client,
        extenders: Extenders,
        *,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.attempts: Counter[str] = Counter()
        self._client = client
        self._extenders = extenders
        self._rng = rng
        self._clock = clock
        self._wall = wall
        self._events = EventRecorder(client, SCHEDULER, clock=wall)
        self._pending = SchedulingQueue()
        self._assumed: dict[str, str] = {}  # bound here, not yet in the informer
        self._wakeup = WakeUp()
        self._pods = Informer(client, PODS, self._pod_changed)
        self._nodes = Informer(client, NODES, self._node_changed)

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        async with following(self._nodes, self._pods):
            while True:
                self._wakeup.clear()
                if (key := self._pending.take(self._clock())) is None:
                    await self._sleep()
                    continue
                try:
                    await self._attempt(key)
                except Exception:
                    log.exception("attempt failed", pod=key)
                    self._pending.failed(key, self._clock())

    async def _sleep(self) -> None:
        due = self._pending.due()
        await self._wakeup.wait(None if math.isinf(due) else max(due - self._clock(), 0.0))

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or queue.node_change_counts(old, new)):
            self._pending.requeue_all(self._clock())
            self._wakeup.set()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if new is None:
            del self.attempts[key]
        if new is None or not _waits(new):
            self._settled(key, old, new)
        else:
            self._waiting(key, old, new)
        self._wakeup.set()

    def _settled(self, key: str, old: Object | None, new: Object | None) -> None:
        """Remove a pod that needs no node. If it used a node, others may be schedulable now."""
        self._pending.forget(key)
        if new is None or _node_of(new):
            self._assumed.pop(key, None)
        if not _node_of(new or old or {}):
            return
        if old is None or new is None or queue.placed_pod_change_counts(old, new):
            self._pending.requeue_all(self._clock())

    def _waiting(self, key: str, old: Object | None, new: Object) -> None:
        if key in self._assumed:
            return  # an older version of a pod that was just bound
        gated = bool(new["spec"].get("schedulingGates"))
        now = self._clock()
        self._pending.put(key, priority=new["spec"].get("priority") or 0, gated=gated, now=now)
        if not gated and old is not None and queue.waiting_pod_change_counts(old, new):
            self._pending.requeue(key, now)

    async def _attempt(self, key: str) -> None:
        pod = self._pods.objects[key]
        self.attempts[key] += 1
        try:
            verdict = await self._decide(pod)
            if isinstance(verdict, Placed):
                await self._bind(pod, verdict.node)
        except (ExtenderError, ApiError, aiohttp.ClientError, OSError) as error:
            self._pending.failed(key, self._clock())
            if key in self._pods.objects:  # not deleted meanwhile
                await self._turned_away(pod, "SchedulerError", str(error))
            return
        match verdict:
            case Placed():
                self._pending.forget(key)
            case Refused(message, resolvable):
                nominated = await self._preempt(pod, resolvable)
                self._pending.refused(key, self._clock())
                await self._turned_away(pod, "Unschedulable", message, nominated)

    async def _decide(self, pod: Object) -> Placed | Refused:
        nodes = list(self._nodes.objects.values())
        nominated = preemption.nominated_node(pod)
        if nominated in self._nodes.objects:
            # The node on which room was made for it comes first, alone.
            decided = await self._decide_among(pod, [self._nodes.objects[nominated]])
            if isinstance(decided, Placed):
                return decided
        # kube-scheduler starts at another node each time; the order is not defined.
        self._rng.shuffle(nodes)
        return await self._decide_among(pod, nodes)

    async def _decide_among(self, pod: Object, nodes: Sequence[Object]) -> Placed | Refused:
        placed = [*self._placed(), *self._nominated_before(pod)]
        running = [(on, one) for on, one in placed if not _is_finished(one)]
        known = {node["metadata"]["name"]: node for node in self._nodes.objects.values()}
        obstacle = partial(neighbours.obstacle, placed=running, nodes=known)
        fit = fitting.fit(pod, nodes, fitting.usage(placed), obstacle)
        fits, refused = fit.nodes, dict(fit.refused)
        unresolvable: frozenset[str] = frozenset()
        if fits:
            answer = await self._extenders.filter(pod, fits)
            refused |= {name: (reason,) for name, reason in answer.refused.items()}
            fits = tuple(node for node in fits if node["metadata"]["name"] in answer.names)
            unresolvable = answer.unresolvable
        if not fits:
            left = tuple(node for node in nodes if node["metadata"]["name"] not in unresolvable)
            return Refused(fitting.message(len(nodes), refused.values()), left)
        names = [node["metadata"]["name"] for node in fits]
        # With one feasible node kube-scheduler does not call prioritize.
        scores = await self._extenders.scores(pod, fits) if len(fits) > 1 else {}
        return Placed(best(names, with_taints(scores, pod, fits), self._rng))

    async def _preempt(self, pod: Object, nodes: Sequence[Object]) -> str:
        """Delete pods of lower priorities so that a pod fits; return the node, or an empty text if there is none."""
        placed = list(self._placed())
        if not preemption.may_preempt(pod, placed):
            return preemption.nominated_node(pod)
        occupied = [*placed, *self._nominated_before(pod)]
        found = preemption.candidates(pod, nodes, occupied)
        if found:
            budgets = (await self._client.list(BUDGETS)).items
            found = preemption.candidates(pod, nodes, occupied, budgets)
        try:
            left = await self._extenders.preempt(pod, found)
        except ExtenderError as error:
            log.warning("preemption failed", pod=_name(pod), error=str(error))
            return ""
        if not left:
            return ""
        node = preemption.best(left)
        for victim in left[node].pods:
            await self._delete(victim, pod, node)
        return node

    async def _delete(self, victim: Object, pod: Object, node: str) -> None:
        meta = victim["metadata"]
        log.info("preempted", pod=_name(victim), by=_name(pod), node=node)
        try:
            await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
        except ApiError as error:
            if error.status not in {404, 409}:  # it ended meanwhile
                raise
        uid = pod["metadata"]["uid"]
        await self._events.record(victim, "Preempted", f"Preempted by pod {uid} on node {node}")

    def _nominated_before(self, pod: Object) -> Iterator[tuple[str, Object]]:
        """Yield waiting pods for which room was made, and which are as important as a pod."""
        for key, other in self._pods.objects.items():
            node = preemption.nominated_node(other)
            if not node or not _waits(other) or key in self._assumed or key == _name(pod):
                continue
            if preemption.priority(other) >= preemption.priority(pod):
                yield node, other

    def _placed(self) -> Iterator[tuple[str, Object]]:
        for key, pod in self._pods.objects.items():
            if node := _node_of(pod) or self._assumed.get(key):
                yield node, pod

    async def _bind(self, pod: Object, node: str) -> None:
        key = _name(pod)
        self._assumed[key] = node
        try:
            await self._client.bind(pod, node)
        except BaseException:
            self._assumed.pop(key, None)
            raise
        log.info("bound", pod=key, node=node)
        await self._events.record(pod, "Scheduled", f"Successfully assigned {key} to {node}")

    async def _turned_away(
        self, pod: Object, reason: str, message: str, nominated: str | None = None
    ) -> None:
        """Report an attempt that placed no pod. `nominated`: the node that preemption chose; None: as before."""
        log.info("not bound", pod=_name(pod), reason=reason, why=message)
        await self._events.record(pod, "FailedScheduling", message, kind="Warning")
        body = unscheduled(pod, reason, message, nominated, now=self._wall())
        if body is None:
            return
        meta = pod["metadata"]
        try:
            await self._client.patch(
                PODS,
                meta["name"],
                body,
                meta["namespace"],
                subresource="status",
                content_type=STRATEGIC,
            )
        except (ApiError, aiohttp.ClientError, OSError) as error:
            log.debug("condition not written", pod=_name(pod), error=str(error))


def with_taints(
    scores: Mapping[str, int], pod: Object, nodes: Sequence[Object]
) -> Mapping[str, int]:
    """Return the scores with those of kube-scheduler's plugin TaintToleration: fewer soft taints are better."""
    counts = {node["metadata"]["name"]: constraints.soft_taints(pod, node) for node in nodes}
    most = max(counts.values())
    if not most:
        return scores
    return {
        name: scores.get(name, 0) + _TAINT_SCORE * (most - count) // most
        for name, count in counts.items()
    }


def best(names: Sequence[str], scores: Mapping[str, int], rng: random.Random) -> str:
    """Return the node with the highest score; a random one of several."""
    top = max(scores.get(name, 0) for name in names)
    return rng.choice([name for name in names if scores.get(name, 0) == top])


def unscheduled(
    pod: Object, reason: str, message: str, nominated: str | None = None, *, now: float
) -> Object | None:
    """Return the strategic merge patch that reports why a pod is unschedulable; None if its status already does.

    `nominated`: the node on which room was made for it, empty if there is none; None: as before.
    """
    before = preemption.nominated_node(pod)
    node = {} if nominated in {None, before} else {"nominatedNodeName": nominated or None}
    conditions = (pod.get("status") or {}).get("conditions") or []
    old = next((condition for condition in conditions if condition["type"] == "PodScheduled"), None)
    new = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339.seconds(now),
        "reason": reason,
        "message": message,
    }
    said = ("status", "reason", "message")
    if old is not None and not node and all(old.get(key) == new[key] for key in said):
        return None
    if old is not None and old["status"] == "False":
        new["lastTransitionTime"] = old["lastTransitionTime"]
    return {"status": {"conditions": [new], **node}}


def _is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def _waits(pod: Object) -> bool:
    return (
        not _node_of(pod)
        and "deletionTimestamp" not in pod["metadata"]
        and pod["spec"].get("schedulerName", SCHEDULER) == SCHEDULER
        and not _is_finished(pod)
    )


def _node_of(pod: Object) -> str:
    return (pod.get("spec") or {}).get("nodeName") or ""


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
