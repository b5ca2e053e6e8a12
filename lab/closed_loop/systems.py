"""Systems that place pods beside kube-scheduler's default plugins, and what they read of the nodes' use."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from msgspec import Raw, json

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.catalog import shipped
from evaluator.core.model.arrays import Floats
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import EXTENDER_RESOURCE, POLICY_LABEL
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeStatus
from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.model.pod import Owner, Pod, PodMeta, PodSpec
from evaluator.core.model.resources import RESOURCES, Resource
from evaluator.core.placement.ledger import PlacedPod
from evaluator.core.placement.measures import Measures
from evaluator.core.placement.placements import Placements
from evaluator.core.policy.decide import Decisions, decide
from evaluator.core.policy.types import Policy
from evaluator.core.protocol import Args
from evaluator.core.readings.column import Column, unknown
from evaluator.core.readings.merged import FixedReadings
from lab.closed_loop.kube_scheduler import Scores, from_extender
from lab.closed_loop.use import UseHistory
from lab.closed_loop.workload import Nodes, SimulatedPod
from lab.interface import Descheduler, MakeVerbs

SYNC_PERIOD = 5.0
"""Seconds between two reports of an agent."""
_OWNER = Owner("ReplicaSet", "simulated", "simulated")
"""What recreates the pods."""
_STALE_AFTER = 30.0


class System(Protocol):
    """Filters and scores nodes for pods, from what it read of their use. All times are seconds since the start.

    `period`: between two readings. `by_requests`: whether kube-scheduler's scores by requests count beside the system's.
    `writes`: of node labels, so far.
    """

    period: float
    by_requests: bool
    writes: int

    def read(self, now: float, history: UseHistory) -> None:
        """Take readings."""
        ...

    def permitted(self, pod: SimulatedPod, feasible: Positions, now: float) -> Positions:
        """Return those of the feasible nodes that the system does not reject."""
        ...

    def scores(self, pod: SimulatedPod, feasible: Positions, now: float) -> Scores | int:
        """Return what the system adds to kube-scheduler's scores of these nodes, shape (feasible,)."""
        ...

    def bound(self, pod: SimulatedPod, node: int, now: float) -> None:
        """A pod was bound, and the watch of pods has reported it."""
        ...

    def gone(self, pod: SimulatedPod, node: int, now: float) -> None:
        """A pod ended or was descheduled."""
        ...

    def descheduled(self, now: float) -> Sequence[str]:
        """Return the names of the pods that leave their nodes now."""
        ...


class DefaultPlugins:
    """kube-scheduler with its default plugins alone."""

    period = SYNC_PERIOD
    by_requests = True
    writes = 0

    def read(self, now: float, history: UseHistory) -> None:
        """Read nothing."""

    def permitted(self, pod: SimulatedPod, feasible: Positions, now: float) -> Positions:
        """Return all nodes."""
        return feasible

    def scores(self, pod: SimulatedPod, feasible: Positions, now: float) -> Scores | int:
        """Return 0."""
        return 0

    def bound(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Do nothing."""

    def gone(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Do nothing."""

    def descheduled(self, now: float) -> Sequence[str]:
        """Return nothing."""
        return ()


METRICS = frozenset(
    {
        "cpu_used_cores",
        "cpu_used_mean_5m_cores",
        "cpu_used_stddev_5m_cores",
        "cpu_utilisation_ratio",
        "cpu_headroom_ratio",
        "memory_used_bytes",
        "memory_used_mean_5m_bytes",
        "memory_utilisation_ratio",
        "memory_headroom_ratio",
    }
)
"""The shipped metrics that are simulated, without the optional prefix `node_`."""


class ShippedMetrics(FixedReadings):
    """The readings of the shipped recording rules, each with the window of its expression.

    All nodes report at the same moments. Memory in use does not change between two reports.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._values: dict[str, Floats] = {}
        self._at = -np.inf

    def read(self, now: float, history: UseHistory, metrics: Iterable[str]) -> None:
        """Compute the metrics now. Unknown names have no reading."""
        self._at = now
        self._values = {}
        for metric in metrics:
            value = self._value(metric.removeprefix("node_"), history)
            if value is not None:
                self._values[metric] = value

    def _value(self, name: str, history: UseHistory) -> Floats | None:
        cores, memory = self._nodes.cores, self._nodes.memory
        match name:
            case "cpu_used_cores":
                return history.mean(15)
            case "cpu_used_mean_5m_cores":
                return history.mean(300)
            case "cpu_used_stddev_5m_cores":
                return history.deviation(300)
            case "cpu_utilisation_ratio":
                return history.mean(60) / cores
            case "cpu_headroom_ratio":
                return 1 - history.mean(60) / cores
            case "memory_used_bytes" | "memory_used_mean_5m_bytes":
                return history.memory
            case "memory_utilisation_ratio":
                return history.memory / memory
            case "memory_headroom_ratio":
                return 1 - history.memory / memory
            case _:
                return None

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over all nodes at `now`."""
        size, values = len(nodes), self._values.get(metric)
        if values is None:
            return unknown(size, unreported=False)
        at, false = np.full(size, self._at), np.zeros(size, bool)
        fresh = np.full(size, self._at >= now - _STALE_AFTER)
        return Column(values, np.ones(size, np.int32), at, fresh, false, false)


class Plimsoll(DefaultPlugins):
    """The evaluator's own decisions, answers and descheduling, on readings of the shipped rules.

    All pods name the first policy. Policies that are only observed are simulated as if they were enforced.
    """

    period = SYNC_PERIOD

    def __init__(
        self,
        nodes: Nodes,
        policies: Sequence[Policy],
        verbs: MakeVerbs,
        *,
        weight: int,
        descheduler: Descheduler | None = None,
    ) -> None:
        """`weight`: the extender's, in kube-scheduler's configuration."""
        self._policies = [replace(policy, observed_by="") for policy in policies]
        self._key = policies[0].key
        self._metrics = frozenset[str]().union(*(policy.metrics for policy in policies))
        has = {Resource.CPU: 1000.0 * nodes.cores, Resource.MEMORY: nodes.memory}
        allocatable = tuple(has.get(resource, 0.0) for resource in RESOURCES)
        self._placements = Placements(
            Measures(shipped), lambda _node: allocatable, stale_after=_STALE_AFTER
        )
        self._verbs = verbs(self._placements)
        self._weight = weight
        self._descheduler = descheduler
        self._names = NodeIndex(nodes.names)
        self._readings = ShippedMetrics(nodes)
        self._decisions = Decisions()
        self._current = False
        self._running = PodsByPolicy(lambda _pod: True)
        ready = NodeStatus([NodeCondition("Ready", "True")])
        objects = {name: Node(NodeMeta(name=name), status=ready) for name in self._names}
        self._feasible = FeasibleNodes(objects)
        self._pods: dict[str, Pod] = {}
        self.labelled: frozenset[str] = frozenset()
        """The nodes with the label of the first policy's deschedule."""

    def read(self, now: float, history: UseHistory) -> None:
        """Take the readings of all nodes; they are decided on when the next pod needs it."""
        self._readings.read(now, history, self._metrics)
        self._current = False
        if self._placements.learned.waiting:
            self._decided(now)

    def permitted(self, pod: SimulatedPod, feasible: Positions, now: float) -> Positions:
        """Return the nodes that the extender's filter does not reject."""
        rejected = self._verbs.rejected(self._args(pod, feasible), self._decided(now), now)
        if not rejected:
            return feasible
        passing = [node for node in feasible.tolist() if self._names[node] not in rejected]
        return np.array(passing, dtype=np.intp)

    def scores(self, pod: SimulatedPod, feasible: Positions, now: float) -> Scores:
        """Return the extender's scores as kube-scheduler adds them."""
        given = self._verbs.scores(self._args(pod, feasible), self._decided(now), now)
        position = self._names.position
        by_node = {position[name]: score for name, score in given}
        return from_extender(by_node, feasible, self._weight)

    def bound(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Add the pod to the running ones."""
        placed = self._placed(pod)
        self._placements.bound(placed, self._names[node], now, now)
        meta = PodMeta(
            name=pod.name,
            namespace=self._key.namespace,
            uid=pod.name,
            labels={POLICY_LABEL: self._key.name},
            controller=_OWNER,
        )
        spec = PodSpec(node_name=self._names[node], requests=placed.requests)
        found = self._pods[pod.name] = Pod(meta, spec)
        self._running.change(None, found)
        self._feasible.change_pod(None, found)

    def gone(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Remove the pod from the running ones."""
        found = self._pods.pop(pod.name, None)
        if found is not None:
            self._placements.gone(self._placed(pod), self._names[node], now)
            self._running.change(found, None)
            self._feasible.change_pod(found, None)

    def descheduled(self, now: float) -> Sequence[str]:
        """Return the pods that the descheduler chooses now."""
        if self._descheduler is None:
            return ()
        decisions = self._decided(now)
        for pod in self._pods.values():
            self._feasible.for_pod(pod)
            break  # all pods have the same constraints
        for _ in self._feasible.catching_up():
            pass
        due = self._descheduler.due(decisions, self._running, self._feasible, now, self._placements)
        return [pod.metadata.name for pod in due]

    def _decided(self, now: float) -> Decisions:
        """Return the decisions on the latest readings."""
        if not self._current or now >= self._decisions.valid_until:
            self._decisions = decide(
                self._policies,
                self._names,
                self._readings,
                now=now,
                before=self._decisions,
                without_departed=self._placements.without_departed,
            )
            self._current = True
            labelled = frozenset(self._decisions.policies[self._key].deschedule)
            self.writes += len(labelled ^ self.labelled)
            self.labelled = labelled
            for _ in self._placements.follow(self._decisions, now):
                pass
        return self._decisions

    def _placed(self, pod: SimulatedPod) -> PlacedPod:
        requests = {Resource.CPU: round(1000 * pod.cpu), Resource.MEMORY: int(pod.memory)}
        vector = tuple(requests.get(resource, 0) for resource in RESOURCES)
        return PlacedPod(pod.name, self._key, vector)

    def _args(self, pod: SimulatedPod, feasible: Positions) -> Args:
        names = [self._names[node] for node in feasible.tolist()]
        labels = {POLICY_LABEL: self._key.name}
        whole = self._whole(pod)
        return Args(self._key.namespace, pod.name, labels, names, None, whole, pod.name)

    def _whole(self, pod: SimulatedPod) -> Raw:
        """Return the pod's object as JSON."""
        requests = {"cpu": f"{round(pod.cpu * 1000)}m", "memory": str(int(pod.memory))}
        limits = {"cpu": f"{round(pod.limit * 1000)}m", EXTENDER_RESOURCE: "1"}
        container = {"name": "main", "resources": {"requests": requests, "limits": limits}}
        meta = {
            "name": pod.name,
            "namespace": self._key.namespace,
            "uid": pod.name,
            "labels": {POLICY_LABEL: self._key.name},
        }
        return Raw(json.encode({"metadata": meta, "spec": {"containers": [container]}}))
