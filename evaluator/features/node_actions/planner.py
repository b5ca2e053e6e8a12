"""Plans the actions on nodes after each decision, in every replica; only the leader writes them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import PolicyGauge
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import NodeCondition
from evaluator.core.model.node_labels import FIELD_MANAGER
from evaluator.core.policy.stops import StopsNow, no_stops
from evaluator.core.signals import PolicyReportChanged, Publish, Signal, unheard
from evaluator.features.node_actions.names import own_prefixes
from evaluator.features.node_actions.plan import planning
from evaluator.features.node_actions.types import ActionPlan, ActionSettings, Observed, OwnTaint
from evaluator.features.node_actions.writes import own_taints
from plimsoll.pace import Pace, sliced
from plimsoll.wakeup import WakeUp

_REST = 0.02
"""Seconds between two plans."""
_PACE = Pace(rest=0)


class NodeActionMetrics:
    """The metrics of taints and conditions, and of the limits of nodes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.taint_writes = Counter(
            "plimsoll_taint_writes",
            "Writes of node taints by result.",
            ["result"],
            registry=registry,
        )
        self.condition_writes = Counter(
            "plimsoll_condition_writes",
            "Writes of node conditions by result.",
            ["result"],
            registry=registry,
        )
        self.tainted_nodes = Gauge(
            "plimsoll_tainted_nodes",
            "Nodes with a taint of Plimsoll.",
            registry=registry,
        )
        self.acted_nodes = PolicyGauge(
            "plimsoll_policy_acted_nodes",
            "Nodes with a hard taint of a policy, or from which its pods are evicted.",
            ["namespace", "policy"],
            registry=registry,
        )
        self.held_back_nodes = PolicyGauge(
            "plimsoll_policy_held_back_nodes",
            "Violating nodes that are not acted on because of max-nodes or --maxActedNodes.",
            ["namespace", "policy"],
            registry=registry,
        )


class ActionsPlanned(Signal, frozen=True):
    """There is a new plan of taints and conditions."""


class NodeActionPlanner:
    """Owns the current plan. Call `wake()` after new decisions, `changed(node)` after a node's taints or conditions changed.

    `ready` is false until the first plan: then nothing may be written. `in_flight`: node → taints that a write may be
    adding; they count for the limits.
    """

    def __init__(
        self,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: NodeActionMetrics,
        settings: ActionSettings,
        *,
        evicts: Callable[[], bool] | None = None,
        stops: StopsNow = no_stops,
        publish: Publish = unheard,
        guard: Guard = UNGUARDED,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`evicts`: returns whether pods are evicted, if that is known later than `settings`."""
        self._evicts = evicts
        self._stops = stops
        self._publish = publish
        self._guard = guard
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self.settings = settings
        self.clock = clock
        self.prefixes = own_prefixes(settings.prefix)
        self.latest = ActionPlan()
        self.ready = False
        self.in_flight: dict[str, frozenset[OwnTaint]] = {}
        self.uncertain: dict[str, frozenset[OwnTaint]] = {}
        """The same of writes whose response was lost, until the node changes."""
        self._taints: dict[str, frozenset[OwnTaint]] = {}
        self._conditions: dict[str, dict[str, NodeCondition]] = {}
        self._types_of: dict[str, frozenset[str]] = {}
        self._foreign: dict[str, dict[str, str]] = {}
        self._foreign_of: dict[str, dict[str, str]] = {}
        self._shown: frozenset[PolicyKey] = frozenset()
        self._wakeup = WakeUp()

    def wake(self) -> None:
        """Plan soon."""
        self._wakeup.set()

    def changed(self, name: str) -> None:
        """Record a node's own taints and conditions; plan soon if they changed."""
        node = self._cluster.nodes.objects.get(name)
        taints = own_taints(node, self.prefixes) if node else frozenset()
        conditions = node.own_conditions(FIELD_MANAGER) if node else {}
        foreign = node.foreign_conditions(FIELD_MANAGER) if node else {}
        self.uncertain.pop(name, None)
        before = (
            self._taints.get(name, frozenset()),
            self._of(name),
            self._foreign_of.get(name, {}),
        )
        if (taints, conditions, foreign) == before:
            return
        self._taints.pop(name, None)
        if taints:
            self._taints[name] = taints
        for kind in self._types_of.pop(name, ()):
            del self._conditions[kind][name]
        for kind, condition in conditions.items():
            self._conditions.setdefault(kind, {})[name] = condition
        if conditions:
            self._types_of[name] = frozenset(conditions)
        for kind in self._foreign_of.pop(name, ()):
            del self._foreign[kind][name]
        for kind, manager in foreign.items():
            self._foreign.setdefault(kind, {})[name] = manager
        if foreign:
            self._foreign_of[name] = foreign
        self._metrics.tainted_nodes.set(len(self._taints))
        self.wake()

    def standing(self, node: str, kind: str) -> NodeCondition | None:
        """Return a condition of ours that a node has."""
        return self._conditions.get(kind, {}).get(node)

    def _of(self, name: str) -> dict[str, NodeCondition]:
        return {kind: self._conditions[kind][name] for kind in self._types_of.get(name, ())}

    def may_evict(self, policy: PolicyKey, node: str) -> bool:
        """Return whether a policy may evict pods from a node, within the limits."""
        actions = self.latest.policies.get(policy)
        return actions is not None and actions.may_evict(node)

    async def run(self) -> None:
        """Plan until cancelled."""
        while True:
            await self._wakeup.wait()
            if not self._decider.waiting_for:
                await self.plan()
            await asyncio.sleep(_REST)

    async def plan(self) -> None:
        """Plan from the current decisions, in slices."""
        taints = dict(self._taints)
        for writes in (self.in_flight, self.uncertain):
            for node, adding in writes.items():
                taints[node] = taints.get(node, frozenset()) | adding
        observed = Observed(taints, self._conditions, self._foreign)
        steps = planning(
            self._decider.latest,
            observed,
            self.latest,
            self._settings(),
            now=self.clock(),
            guard=self._guard,
        )
        self.latest = (await sliced(steps, _PACE)).result
        self.ready = True
        self._show(self.latest)
        self._publish(ActionsPlanned())
        self._publish(PolicyReportChanged())

    def _settings(self) -> ActionSettings:
        evict = self._evicts() if self._evicts else self.settings.evict
        return replace(self.settings, evict=evict, stops=self._stops())

    def _show(self, plan: ActionPlan) -> None:
        limited = {key: actions for key, actions in plan.policies.items() if actions.choice}
        for key, actions in limited.items():
            self._metrics.acted_nodes.set(key, actions.acted)
            self._metrics.held_back_nodes.set(key, actions.held_back)
        for key in self._shown - limited.keys():
            self._metrics.acted_nodes.remove(key)
            self._metrics.held_back_nodes.remove(key)
        self._shown = frozenset(limited)
