"""Explains gangs as plain data: state, members, place in the queue, and how many pods fit on which nodes. No I/O."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from evaluator.core.model.feasibility import EXCLUDED_BY
from evaluator.core.model.pod_record import Key, PodRecord
from evaluator.core.model.pod_spec_view import FINISHED
from evaluator.core.model.resources import RESOURCES, ExtendedResources, ResourceVector
from evaluator.features.gangs.core.membership import GATE, PodShape, QoS, shapes
from evaluator.features.gangs.core.packing import Capacity, Demand, Packing
from evaluator.features.gangs.core.page import (
    FittingPods,
    GangMember,
    GangNode,
    GangPage,
    GangQuorum,
    GangRank,
    GangShortage,
    GangState,
    GangTurn,
    QueuedGang,
    ShapeFit,
)
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup, about
from evaluator.features.gangs.core.types import GangDecisions, GangTimings, Reservation
from plimsoll import rfc3339

_LOOKED_AT = 10
"""The largest number of shapes in an explanation; the most frequent ones are kept."""
_NAMED = 10
"""The largest number of gangs in a list of names."""
_CLASSES = {
    QoS.GUARANTEED: "Guaranteed",
    QoS.BURSTABLE: "Burstable",
    QoS.BEST_EFFORT: "BestEffort",
}
_ELSEWHERE = (
    "another replica is leader: its /explain has state and turn; everything else is the same here"
)


@dataclass(frozen=True)
class Fit:
    """Unplaced pods by shape, and the capacity for them: now, and on empty nodes."""

    capacity: Capacity
    free: Packing
    empty: Packing
    demand_by_shape: Sequence[tuple[PodShape, int]]

    @classmethod
    def of(cls, capacity: Capacity, demand: Demand, kept: Iterable[Demand] = ()) -> "Fit":
        """Return the fit of some pods beside those with reservations (`kept`)."""
        free = Packing(capacity)
        for others in kept:
            free.place(others)
        demand_by_shape = Counter(demand).most_common(_LOOKED_AT)
        return cls(capacity, free, Packing(capacity, empty=True), demand_by_shape)

    def shapes(self) -> list[ShapeFit]:
        """Return for each shape its requests, the number of pods, and how many would fit if it were alone."""
        return [
            ShapeFit(
                pods=count,
                requests=requested_amounts(shape.requests, shape.others),
                policy=str(shape.policy) if shape.policy else None,
                nodes=int(self.capacity.allowed(shape.where, shape.policy).sum()),
                fit_now=int(self.free.capacity(shape).sum()),
                fit_were_nodes_empty=int(self.empty.capacity(shape).sum()),
            )
            for shape, count in self.demand_by_shape
        ]

    def nodes(self) -> Iterator[tuple[str, GangNode]]:
        """Yield for each node the free amounts of the requested resources, and how many pods of each shape fit."""
        columns = [self._column(shape) for shape, _ in self.demand_by_shape]
        free = [(name, self._free(name)) for name in self._requested()]
        for position, name in enumerate(self.capacity.nodes if columns else ()):
            yield (
                name,
                GangNode(
                    free={resource: amounts[position] for resource, amounts in free},
                    pods=[column(position) for column in columns],
                ),
            )

    def _requested(self) -> Sequence[str]:
        named = (
            requested_amounts(shape.requests, shape.others) for shape, _ in self.demand_by_shape
        )
        return list(dict.fromkeys(name for names in named for name in names))

    def _free(self, resource: str) -> list[float | None]:
        """Return the free amount by node; None if unknown."""
        row = self.capacity.row_of.get(resource)
        if row is None:
            return [None] * len(self.capacity.nodes)
        return [
            None if math.isnan(amount) else amount for amount in self.capacity.free[row].tolist()
        ]

    def _column(self, shape: PodShape) -> Callable[[int], FittingPods]:
        now, empty = self.free.capacity(shape).tolist(), self.empty.capacity(shape).tolist()
        could = self.capacity.allowed(shape.where, None).tolist()
        may = self.capacity.allowed(shape.where, shape.policy).tolist()

        def describe(position: int) -> FittingPods:
            counts = FittingPods(int(now[position]), int(empty[position]))
            if not may[position]:
                counts.shut_out_by = "its policy" if could[position] else EXCLUDED_BY
            return counts

        return describe


def requested_amounts(requests: ResourceVector, others: ExtendedResources) -> dict[str, int]:
    """Return amounts by resource, in milli-CPU, bytes or units."""
    known = zip(map(str, RESOURCES), requests, strict=True)
    return {name: amount for name, amount in (*known, *others) if amount}


@dataclass(frozen=True)
class GangExplainer:
    """Answers /explain about gangs. `decides`: whether this replica is leader; `now`: Unix seconds."""

    gangs: Callable[[], Mapping[GangKey, PodGroup]]
    decisions: Callable[[], GangDecisions]
    capacity: Callable[[], Capacity]
    timings: GangTimings
    now: Callable[[], float]
    waiting_for: Callable[[], Sequence[str]] = tuple
    """What is missing before gangs can be explained."""
    undecided: Callable[[], Sequence[str]] = tuple
    """Why no decisions are made now."""
    catching_up: Callable[[], Iterator[None]] = lambda: iter(())
    """Most of the work of `capacity()`, in steps."""
    blockers: Callable[[GangKey], Sequence[str]] = lambda _key: ()
    native: Mapping[Key, PodRecord] = field(default_factory=dict)
    decides: Callable[[], bool] = lambda: True
    conceals: bool = False
    """The place of a gang is that among the gangs of its namespace."""

    def find(self, name: str) -> PodGroup | None:
        """Return the gang namespace/podGroup, or the gated pod without a gang of this name."""
        namespace, _, rest = name.partition("/")
        gangs = self.gangs()
        return gangs.get(GangKey(namespace, rest)) or gangs.get(
            GangKey(namespace, rest, alone=True)
        )

    def unknown(self, name: str) -> str:
        """Return an error for an unknown gang, with the names of some of its namespace."""
        namespace, _, rest = name.partition("/")
        if (namespace, rest) in self.native:
            return f"pod {name} has a spec.schedulingGroup: Kubernetes schedules its group, and its gate is never removed"
        gangs = [key for key in self.gangs() if key.namespace == namespace]
        known = list(map(str, heapq.nsmallest(_NAMED, gangs)))
        more = len(gangs) - len(known)
        return (
            f"no gang {name} (use <namespace>/<podGroup>, or <namespace>/<pod> for a gated pod without a gang); "
            f"known in this namespace: {', '.join(known) or 'none'}"
            + (f" and {more} more" if more else "")
        )

    def waiting(self) -> Iterator[PodGroup]:
        """Yield all waiting gangs, with their rank computed."""
        for gang in tuple(self.gangs().values()):
            if gang.gated and gang.rank:
                yield gang

    def queue(self, waiting: Iterable[PodGroup]) -> Iterator[QueuedGang]:
        """Yield gangs in queue order with their states."""
        verdicts = self.decisions().verdicts
        for gang in sorted(waiting, key=lambda gang: gang.rank):
            verdict = verdicts.get(gang.key)
            yield QueuedGang(
                gang=str(gang.key),
                explain=f"/explain?gang={gang.key}",
                state=str(verdict.state) if verdict else None,
                message=verdict.message if verdict else None,
                group_priority=-gang.rank.priority,
                held=len(gang.gated),
            )

    def line(self, gang: PodGroup) -> Iterator[GangKey | None]:
        """Yield for each other waiting gang its key if it goes first, else None."""
        for other in tuple(self.gangs().values()):
            if self.conceals and other.key.namespace != gang.key.namespace:
                continue
            if other.gated and other.key != gang.key:
                yield other.key if other.rank < gang.rank else None

    def head(self, gang: PodGroup, line: Sequence[GangKey | None], fit: Fit) -> GangPage:
        """Return the explanation of the gang as a whole; `line` is the result of `line()`."""
        return GangPage(
            **structs.asdict(self.state(gang)),
            waiting_for=list(self.undecided()),
            gang=str(gang.key),
            alone=gang.key.alone,
            quorum=_quorum(gang),
            rank=self._rank(gang, line),
            problems=list(gang.problems),
            obstacles=list(self.blockers(gang.key)),
            needs_room=self.timings.fit,
            fit=fit.shapes(),
        )

    def fit(self, gang: PodGroup) -> Fit:
        """Return where its unplaced pods fit, beside the pods with reservations."""
        gangs, reservations = (
            self.gangs(),
            self.decisions().memory.reservations if self.decides() else {},
        )
        kept = [
            gangs[key]
            for key, reservation in reservations.items()
            if key in gangs and self._keeps(reservation)
        ]
        return Fit.of(
            self.capacity(),
            shapes((*gang.gated, *gang.unplaced)),
            [shapes(other.placing) for other in kept if other is not gang],
        )

    def state(self, gang: PodGroup) -> GangState:
        """Return the decision about a gang."""
        if not self.decides():
            return GangState(state=None, message=_ELSEWHERE)
        decisions = self.decisions()
        verdict = decisions.verdicts.get(gang.key)
        if verdict is None:
            return GangState(state=None, message="no decision yet")
        state = GangState(state=str(verdict.state), message=verdict.message)
        if verdict.state.waits and verdict.since:
            state.waiting_seconds = round(max(0.0, self.now() - verdict.since), 3)
        if (shortage := verdict.shortage) is not None:
            state.shortage = GangShortage(
                fit=shortage.fit,
                wanted=shortage.requested,
                nodes=shortage.nodes,
                short=shortage.short,
            )
        if gang.key in decisions.memory.admitted:
            state.admitted = sorted(filter(None, decisions.memory.admitted[gang.key]))
        if (reservation := decisions.memory.reservations.get(gang.key)) is not None:
            state.turn = self._reservation(reservation)
        return state

    def _reservation(self, reservation: Reservation) -> GangTurn:
        rests = reservation.rests_until > self.now()
        return GangTurn(
            began=rfc3339.millis(reservation.began),
            ends=None if rests else rfc3339.millis(reservation.began + self.timings.timeout),
            rests_until=rfc3339.millis(reservation.rests_until) if rests else None,
            timeouts=reservation.misses,
        )

    def _keeps(self, reservation: Reservation) -> bool:
        return reservation.rests_until <= self.now() < reservation.began + self.timings.timeout

    def _rank(self, gang: PodGroup, line: Sequence[GangKey | None]) -> GangRank:
        rank, gangs = gang.rank, self.gangs()
        there = [gangs[key] for key in line if key is not None and key in gangs]
        before = sorted(there, key=lambda other: other.rank)
        own = [str(other.key) for other in before if other.key.namespace == gang.key.namespace]
        return GangRank(
            group_priority=-rank.priority,
            qos_class=_CLASSES[rank.qos],
            created=rfc3339.millis(rank.created) if rank.created else None,
            place=len(before) + 1 if gang.gated else None,
            of=len(line) + bool(gang.gated),
            before=own[:_NAMED],
            before_elsewhere=len(before) - len(own),
        )


def members(gang: PodGroup) -> Iterator[tuple[str, GangMember]]:
    """Yield the name of each pod and what it waits for."""
    for pod in gang.pods:
        member = about(pod)
        yield (
            pod.name,
            GangMember(
                state=_state(pod),
                node=pod.node or None,
                gates=[*([GATE] if member.gated else []), *member.foreign],
                admitted=rfc3339.millis(member.admitted) if member.admitted is not None else None,
                created=rfc3339.millis(pod.created) if pod.created is not None else None,
                owner=f"{member.owner.kind} {member.owner.name}" if member.owner.kind else None,
                min_available=member.minimum,
                group_priority=member.priority,
                requests=requested_amounts(pod.requests, pod.others),
                problems=[*member.problems, *pod.problems],
            ),
        )


def _state(pod: PodRecord) -> str:
    if pod.phase in FINISHED:
        return f"finished: {pod.phase}"
    if pod.leaving:
        return "being deleted"
    if pod.node:
        return "has a node"
    if about(pod).held:
        return "held"
    return "waiting for kube-scheduler"


def _quorum(gang: PodGroup) -> GangQuorum:
    return GangQuorum(
        min_available=gang.minimum,
        existing=gang.existing,
        complete=gang.complete,
        counts_all=gang.count_all,
        held=len(gang.gated),
        held_by_others=len(gang.foreign),
        without_node=len(gang.unplaced),
        with_node=len(gang.placed),
        succeeded=gang.succeeded,
    )
