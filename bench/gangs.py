"""Duration of one gang decision while many gangs wait, in this process, without network.

Pods wait in gangs of 20, with ten priorities, each for the nodes of one of three zones. Prints one JSON line per case with
times in milliseconds: wall-clock (p50, max) and CPU time (cpu), which is more reliable on a busy machine:

    room        every gang fits: the first is released, the others wait for their turn
    full        no gang fits: each is checked against free capacity, and against empty nodes
    mixed       as full, with a larger pod in each gang, so that pods are packed one by one, and with sizes that no other
                gang has, so that no result is reused
    pieces      as mixed, with room on every node for the smaller pods

Each is decided `cold` (gangs and capacity built from all pods and nodes) and `steady` (one pod of a gang and one on a node
replaced). A decision that does not match the case ends the program.

    python -P bench/gangs.py [--nodes 1000,5000] [--pods 10000] [--repeats 30]
"""

import gc
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from bench import cluster, commandline
from bench import nodes as made
from bench.commandline import Line
from bench.timing import figures, timed
from evaluator.core.cache.cluster import ClusterCache, decode_node
from evaluator.core.cache.pods import PodCache
from evaluator.core.model.node import Node
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.policy.decide import Decisions
from evaluator.features.gangs.core.capacity import CapacityTracker
from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.labels import decode
from evaluator.features.gangs.core.membership import GATE
from evaluator.features.gangs.core.podgroup import GangIndex
from evaluator.features.gangs.core.types import GangDecisions, GangHistory, GangState, GangTimings

EACH = 20
"""Pods of a gang."""
PRIORITIES = 10
AIM = "cpu_p50_ms <= 50 loops"
NOW = 1_772_500_010.0
_BORN = "2026-03-03T01:06:40Z"
_ZONE = "topology.kubernetes.io/zone"


class WrongDecisionError(Exception):
    """The decision does not match the case."""


@dataclass(frozen=True)
class Case:
    """Milli-CPU that a gang's first pod and each other pod request, and that are used on each node."""

    name: str
    first: int
    others: int
    taken: int
    own: int = 0
    """Increase of requests from gang to gang."""

    def states(self, gangs: int) -> Line:
        """Return the expected number of gangs per state."""
        if self.name == "room":
            return {GangState.RELEASED: 1, GangState.WAITS_FOR_TURN: gangs - 1}
        return {GangState.WAITS_FOR_ROOM: gangs}


CASES = (
    Case("room", 2000, 2000, 500),
    Case("full", 2000, 2000, 7000),
    Case("mixed", 3000, 2000, 7000, own=1),
    Case("pieces", 4000, 500, 6900, own=1),
)


class Waiting:
    """A cluster with waiting gangs, and the caches over it."""

    def __init__(self, case: Case, objects: Sequence[Node], pods: int) -> None:
        self._case = case
        self._cluster = ClusterCache()
        self._inventory = PodCache(clock=lambda: NOW, wall=lambda: NOW)
        for node in objects:
            self._cluster.nodes.put(node)
        self._names = [node.metadata.name for node in objects]
        self._numbers = itertools.count()
        self._members = [self._member(number) for number in range(pods)]
        self._runners = [self._runner(name) for name in self._names]
        for pod in (*self._members, *self._runners):
            self._inventory.pods.put(pod)
        self.gangs = pods // EACH
        self._memory = GangHistory(fresh=False)
        self.begin()

    def begin(self) -> None:
        """Drop all caches."""
        self._inventory.listeners.clear()
        self._inventory.touched.clear()
        self._index = GangIndex(self._inventory)
        self._tracker = CapacityTracker(self._cluster, self._inventory, Decisions)

    def change(self, number: int) -> None:
        """Replace one pod of a gang and one on a node."""
        for pods, make in ((self._members, self._member), (self._runners, self._renewed)):
            at = number * 37 % len(pods)
            self._inventory.pods.drop(pods[at])
            pods[at] = make(at)
            self._inventory.pods.put(pods[at])

    def decide(self) -> GangDecisions:
        """Make one decision, including updates of the caches."""
        capacity = self._tracker.capacity()
        timings, gangs = GangTimings(), self._index.gangs
        return decide(gangs, capacity, self._memory, timings, now=NOW, random=lambda: 0.5)

    def check(self, outcome: GangDecisions) -> None:
        """Raise WrongDecisionError if the decision does not match the case."""
        found = Counter(verdict.state for verdict in outcome.verdicts.values())
        if found != self._case.states(self.gangs):
            raise WrongDecisionError(f"{self._case.name}: {dict(found)}")
        if self._case.name == "room":
            [release] = outcome.releases
            first = f"gang-{min(self.gangs, PRIORITIES) - 1:04d}"
            if len(release.pods) != EACH or release.gang.name != first:
                raise WrongDecisionError(f"{release.gang}: {len(release.pods)} pods")

    def _member(self, number: int) -> PodRecord:
        gang, place = divmod(number, EACH)
        asked = (self._case.others if place else self._case.first) + gang * self._case.own
        labels = {"podGroup": f"gang-{gang:04d}", "minAvailable": str(EACH)}
        return self._pod(
            {"labels": labels | {"groupPriority": str(gang % PRIORITIES)}},
            {
                "schedulingGates": [{"name": GATE}],
                "nodeSelector": {_ZONE: f"westeurope-{gang % 3 + 1}"},
            },
            asked,
        )

    def _runner(self, node: str) -> PodRecord:
        return self._pod({}, {"nodeName": node}, self._case.taken)

    def _renewed(self, at: int) -> PodRecord:
        return self._runner(self._names[at])

    def _pod(self, meta: dict[str, Any], spec: dict[str, Any], asked: int) -> PodRecord:
        name = f"pod-{next(self._numbers)}"
        about = {"name": name, "namespace": "bench", "uid": name, "creationTimestamp": _BORN}
        requests = {"cpu": f"{asked}m", "memory": "1Gi"}
        containers = [{"name": "c", "resources": {"requests": requests}}]
        phase = "Running" if "nodeName" in spec else "Pending"
        body = {
            "metadata": about | meta,
            "spec": {"containers": containers, **spec},
            "status": {"phase": phase},
        }
        return decode(Raw(json.dumps(body).encode()))


def decided(case: Case, objects: Sequence[Node], pods: int, repeats: int) -> Iterator[Line]:
    """Yield the lines of one case."""
    waiting = Waiting(case, objects, pods)
    about = {"case": case.name, "nodes": len(objects), "pods": pods, "gangs": waiting.gangs}
    gc.freeze()
    for what in ("cold", "steady"):
        times = []
        for number in range(repeats if what == "steady" else max(repeats // 6, 1)):
            if what == "cold":
                waiting.begin()
            else:
                waiting.change(number)
            outcome, elapsed = timed(waiting.decide)
            times.append(elapsed)
            waiting.check(outcome)
        aim = AIM if what == "steady" else ""
        yield {
            "benchmark": "gangs",
            **about,
            "what": what,
            **figures(times, 3, max_ms=1.0),
            "aim": aim,
        }
    gc.unfreeze()


def measured(
    nodes: Sequence[int] = (1000, 5000), pods: int = 10_000, repeats: int = 30
) -> Iterator[Line]:
    """Yield the lines of all cases, for each of these numbers of nodes."""
    for count in nodes:
        objects = [made.node(name, index) for index, name in enumerate(cluster.names(count))]
        decoded = [decode_node(Raw(json.dumps(node).encode())) for node in objects]
        for case in CASES:
            yield from decided(case, decoded, pods, repeats)


if __name__ == "__main__":
    commandline.run(measured)
