"""Scores of nodes as metrics, and the nodes that stay in violation since they flap."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.node_index import Mask, NodeIndex
from evaluator.core.policy.stops import StopsNow, no_stops
from evaluator.core.policy.types import Policy
from evaluator.core.policy.vocabulary import IF_PUBLIC, PUBLIC, PolicyMetric
from evaluator.core.readings.column import Column, SourceMask, unknown
from evaluator.core.readings.merged import Readings, ReadingsView
from evaluator.features.memory.annotations import SCORE, VIOLATED, Memory, record
from evaluator.features.memory.scores import ANNOTATION, NodeMemory, Score, parse

SCORES = PolicyMetric("violation_score_", needs=ANNOTATION, public=SCORE)
SOURCE = "memory"
"""The source, as /explain names it."""
_PERIOD = 60.0
"""Seconds between evaluations of rules on scores without other changes: scores decay."""


class Memories:
    """The scores of all nodes, by policy. `policies` returns those of the cluster, by key."""

    def __init__(
        self,
        policies: Callable[[], Mapping[PolicyKey, Policy]],
        stops: StopsNow = no_stops,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`wall` returns Unix time."""
        self._policies = policies
        self._wall = wall
        self._stops = stops
        self._of_node: dict[str, NodeMemory] = {}
        self._by_policy: dict[PolicyKey, dict[str, Score]] = {}
        self._half_lives: Mapping[PolicyKey, float] | None = None
        self._counting: frozenset[PolicyKey] = frozenset()
        self._flapping: dict[PolicyKey, Sequence[str]] = {}

    def policies_changed(self) -> None:
        """Read the half-lives of policies again when they are next used."""
        self._half_lives = None

    def changed(self, name: str, node: Node | None) -> bool:
        """Take over what a node's annotation says, nothing of a deleted node; return whether that changes a score."""
        found = remembered(node).until(self._wall()) if node is not None else NodeMemory()
        before = self._of_node.pop(name, NodeMemory())
        if found.scores:
            self._of_node[name] = found
        if before.scores == found.scores:
            return False
        for key in before.scores:
            del self._by_policy[key][name]
        for key, score in found.scores.items():
            self._by_policy.setdefault(key, {})[name] = score
        return True

    def of_node(self, name: str) -> NodeMemory:
        """Return the memory of a node."""
        return self._of_node.get(name, NodeMemory())

    def of_policy(self, key: PolicyKey) -> Mapping[str, Score]:
        """Return the scores of a policy by node."""
        return self._by_policy.get(key, {})

    @property
    def half_lives(self) -> Mapping[PolicyKey, float]:
        """The half-lives of the policies that have a memory (seconds); the same object until policies change."""
        if self._half_lives is None:
            parts = [(policy, policy.actions.part(Memory)) for policy in self._policies().values()]
            self._half_lives = {
                policy.key: part.half_life for policy, part in parts if part.half_life
            }
            self._counting = frozenset(policy.key for policy, part in parts if part.counts(policy))
            for key in self._flapping.keys() - self._half_lives.keys():
                del self._flapping[key]
        return self._half_lives

    @property
    def counting(self) -> frozenset[PolicyKey]:
        """The policies whose violations change scores; scores of the others in `half_lives` are kept and decay."""
        _ = self.half_lives
        stops = self._stops()
        return frozenset(filter(stops.permit, self._counting)) if stops.freeze else self._counting

    def memory_of(self, key: PolicyKey) -> Memory | None:
        """Return the memory of a policy; None if there is no such policy, or it has none."""
        policy = self._policies().get(key)
        memory = policy.actions.part(Memory) if policy is not None else Memory()
        return memory if memory.half_life else None

    def hold(self, policy: Policy, now: float) -> Sequence[str]:
        """Return the nodes that violated a policy so often that they stay in violation at `now` (Unix seconds), sorted.

        `flapping` returns them until the next decision.
        """
        memory = policy.actions.part(Memory)
        if not memory.half_life or policy.observed:
            self._flapping.pop(policy.key, None)
            return ()
        names = sorted(
            name
            for name, score in self.of_policy(policy.key).items()
            if score.violated and score.now(now, memory.half_life) > memory.flapping_above
        )
        self._flapping[policy.key] = names
        return names

    def flapping(self, key: PolicyKey) -> Sequence[str]:
        """Return the nodes that the last decision about a policy held in violation, sorted."""
        return self._flapping.get(key, ())

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return the scores of a policy at `now` (Unix seconds); 0 on a node that never violated it. `at` is 0.

        Scores that are not public and those that do not exist are the same for columns that end with `IF_PUBLIC`.
        """
        key, size = SCORES.policy_of(metric), len(nodes)
        memory = self.memory_of(key) if key is not None else None
        if_public = metric.endswith(IF_PUBLIC)
        if if_public and key is not None and not SCORES.is_public(self._policies().get(key)):
            memory = None
        if key is None or memory is None:
            needed = f"s {ANNOTATION} and {SCORE}: {PUBLIC}" if if_public else f" {ANNOTATION}"
            fault = f"no policy {key} with the annotation{needed}"
            return unknown(size, unreported=False, fault=fault)
        values = np.zeros(size)
        position = nodes.position if isinstance(nodes, NodeIndex) else NodeIndex(nodes).position
        for name, score in self.of_policy(key).items():
            if (at := position.get(name)) is not None:
                values[at] = score.now(now, memory.half_life)
        return unknown(size, unreported=False)._replace(
            measured=values,
            samples=np.ones(size, np.int32),
            at=np.zeros(size),
            fresh=np.ones(size, bool),
            origin=SourceMask((SOURCE,), np.zeros(size, np.int8)),
        )


def remembered(node: Node) -> NodeMemory:
    """Return what a node's annotation says about its machine."""
    return parse(node.annotation(ANNOTATION)).about(node.status.system_uuid)


class Held:
    """The nodes that flap, computed once per decision. `epoch`: the Unix time at 0 of the store's clock."""

    def __init__(self, memories: Memories, *, epoch: float) -> None:
        self._memories = memories
        self._epoch = epoch

    def __call__(self, policy: Policy, nodes: NodeIndex, now: float) -> Mask | None:
        """Return the nodes that stay in violation of a policy at `now` (the store's clock); None if there are none."""
        names = self._memories.hold(policy, now + self._epoch)
        positions = [nodes.position[name] for name in names if name in nodes.position]
        if not positions:
            return None
        mask = np.zeros(len(nodes), bool)
        mask[positions] = True
        return mask


class WithScores(ReadingsView):
    """Readings, and scores as further metrics. `epoch`: the Unix time at 0 of the store's clock."""

    def __init__(self, readings: Readings, memories: Memories, *, epoch: float) -> None:
        super().__init__(readings)
        self._memories = memories
        self._epoch = epoch

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes at `now`."""
        if SCORES.policy_of(metric) is None:
            return self._readings.column(metric, nodes, now)
        found = self._memories.column(metric, nodes, now + self._epoch)
        return found if found.fault else found._replace(at=np.full(len(nodes), now))

    def _over(self, readings: Readings) -> Readings:
        return WithScores(readings, self._memories, epoch=self._epoch)

    def next_expiry(self, now: float) -> float:
        """Return when a column changes without new input (seconds)."""
        decaying = now + _PERIOD if self._memories.half_lives else np.inf
        return min(self._readings.next_expiry(now), decaying)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics."""
        self._readings.subscribe(name for name in metrics if SCORES.policy_of(name) is None)


def records(node: Node) -> dict[str, str]:
    """Return the violations of a node that were counted and go on, as records: decisions restore timers from them."""
    return {record(key): VIOLATED for key in remembered(node).violated}
