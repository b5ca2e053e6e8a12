"""A model of a small cluster with exactly the guarantees of Kubernetes, for tests of gang decisions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.model.resources import RESOURCES
from evaluator.features.gangs.core.membership import Membership, Owner, PlacementConstraints, QoS
from evaluator.features.gangs.core.packing import Capacity
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup, gang_of

CPU = 1000
ROOMY = 110
"""Maximum pods of a node."""
ANYWHERE = PlacementConstraints()
WHERES = {ANYWHERE: "abcdef", PlacementConstraints(b"bd"): "bd"}
"""Pod constraints and the nodes that satisfy them."""


@dataclass(eq=False)
class Pod:
    """One pod as the API server has it."""

    name: str
    born: float
    cpu: int
    group: str = ""
    minimum: int = 0
    priority: int = 0
    qos: QoS = QoS.BURSTABLE
    owner: str = ""
    where: PlacementConstraints = ANYWHERE
    gated: bool = True
    foreign: bool = False
    native: bool = False
    admitted: float | None = None
    node: str = ""
    phase: str = "Pending"
    leaving: bool = False
    reservation: bool = False
    """Whether its gate was lifted with its gang's reservation."""

    @property
    def living(self) -> bool:
        return self.phase in {"Pending", "Running"} and not self.leaving

    @property
    def loose(self) -> bool:
        """Whether kube-scheduler may place it."""
        return self.living and not (self.gated or self.foreign or self.node)

    @property
    def releasable(self) -> bool:
        return self.living and self.gated and not (self.foreign or self.native)

    @property
    def key(self) -> GangKey | None:
        waits = self.gated or (self.admitted is not None and not self.node)
        if self.native or not (waits or self.minimum):
            return None
        return GangKey("default", self.group or self.name, alone=not self.minimum)

    def resident(self) -> PodRecord:
        about = Membership(
            group=self.group,
            minimum=self.minimum,
            priority=self.priority,
            qos=self.qos,
            owner=Owner("Job", self.owner, self.owner),
            gated=self.gated,
            foreign=("example.com/other",) if self.foreign else (),
            admitted=self.admitted,
            native=self.native,
            where=self.where,
        )
        asked = {"cpu": self.cpu * CPU, "pods": 1}
        return PodRecord(
            namespace="default",
            name=self.name,
            uid=f"uid-{self.name}",
            kind=self.owner or self.name,
            node=self.node,
            phase=self.phase,
            requests=tuple(asked.get(resource, 0) for resource in RESOURCES),
            bound=None,
            created=self.born,
            leaving=self.leaving,
            ready=False,
            restarts=0,
            crashing=False,
            crashed=None,
            extra=about if self.group or self.gated or self.admitted is not None else None,
        )


@dataclass
class Cluster:
    """Nodes with their CPUs, and pods in the order in which kube-scheduler first saw them."""

    nodes: dict[str, int] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)

    def groups(self) -> dict[GangKey, list[Pod]]:
        found: dict[GangKey, list[Pod]] = {}
        for pod in sorted(self.pods, key=lambda pod: pod.name):
            if (key := pod.key) is not None:
                found.setdefault(key, []).append(pod)
        return found

    def gangs(self) -> list[PodGroup]:
        """As in the gang index."""
        found: dict[GangKey, list[PodRecord]] = {}
        for pod in sorted((pod.resident() for pod in self.pods), key=lambda pod: pod.name):
            if (key := gang_of(pod)) is not None:
                found.setdefault(key, []).append(pod)
        return [PodGroup(key, tuple(pods)) for key, pods in found.items()]

    def free(self) -> dict[str, int]:
        left = dict(self.nodes)
        for pod in self.pods:
            if pod.node and pod.phase in {"Pending", "Running"}:
                left[pod.node] -= pod.cpu
        return left

    def capacity(self) -> Capacity:
        names, free = NodeIndex(self.nodes), self.free()
        taken = [sum(pod.node == name for pod in self.pods) for name in names]

        def table(cpus: dict[str, int], pods: list[int]) -> np.ndarray:
            told = {"cpu": [cpus[name] * CPU for name in names], "pods": pods}
            nothing = [0] * len(names)
            return np.array([told.get(one, nothing) for one in RESOURCES], float).reshape(
                len(RESOURCES), len(names)
            )

        return Capacity(
            nodes=names,
            resources=tuple(RESOURCES),
            free=table(free, [ROOMY - number for number in taken]),
            whole=table(self.nodes, [ROOMY] * len(names)),
            allowed=lambda where, _: np.array([n in WHERES[where] for n in names], bool),
        )

    def schedule(self) -> None:
        """Run kube-scheduler: the emptiest feasible node for one pod after the other."""
        free = self.free()
        for pod in self.pods:
            fitting = [n for n in free if free[n] >= pod.cpu and n in WHERES[pod.where]]
            if pod.loose and fitting:
                pod.node = max(fitting, key=free.__getitem__)
                pod.phase = "Running"
                free[pod.node] -= pod.cpu


def can_place(pods: Iterable[Pod], free: Mapping[str, int], need: int | None = None) -> bool:
    """Whether any placement of this many of the pods (None: all) exists, by exhaustive search."""
    asked = sorted((pod.cpu, WHERES[pod.where]) for pod in pods)
    return _can_place(
        tuple(asked), tuple(sorted(free.items())), len(asked) if need is None else need
    )


@lru_cache(maxsize=100_000)
def _can_place(
    asked: tuple[tuple[int, str], ...], free: tuple[tuple[str, int], ...], need: int
) -> bool:
    if need <= 0 or len(asked) < need:
        return need <= 0
    *others, (cpu, where) = asked
    for name, room in free:
        if room >= cpu and name in where:
            left = tuple((n, r - cpu * (n == name)) for n, r in free)
            if _can_place(tuple(others), left, need - 1):
                return True
    return _can_place(tuple(one for one in others if one != (cpu, where)), free, need)
