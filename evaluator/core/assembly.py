"""The core: what every feature builds on, assembled from the flags."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

from evaluator.core import tls
from evaluator.core.cache.cluster import ClusterCache, decode_node, decode_pod
from evaluator.core.catalog import shipped
from evaluator.core.http.ports import AgentPort, SchedulerPort
from evaluator.core.intake import Intake
from evaluator.core.isolation import Isolation
from evaluator.core.kube import resources
from evaluator.core.kube.client import Kube
from evaluator.core.kube.connection import own_namespace
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.watches import AllPods, Watches, decode_policy
from evaluator.core.leader.elector import Leader
from evaluator.core.leader.lease import LeaseTimings
from evaluator.core.leader.write_fence import WriteFence
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import SimilarMetrics, Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.options import CoreOptions
from evaluator.core.placement.measures import Measures
from evaluator.core.placement.placements import Placements
from evaluator.core.policy.decide import as_read
from evaluator.core.policy.types import Policy
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.readings.merged import AGENTS
from evaluator.core.readings.node_conditions import NodeConditions, WithNodeConditions
from evaluator.core.readings.reported import FailingRuleIndex, NodeCauses, NodeProblems
from evaluator.core.readings.store import Store
from evaluator.core.signals import (
    AgentsPortRestarted,
    ProblemAcknowledged,
    Reaction,
    Signals,
    StopsChanged,
    on,
    on_node,
    wakes,
)
from evaluator.core.sources.agents import authn
from evaluator.core.sources.agents.certificates import port_certificates
from evaluator.core.sources.agents.port_process import PortRestarts
from evaluator.core.sources.agents.server import AgentServer
from evaluator.core.sources.build import SourceDependencies, assemble
from evaluator.core.wiring import Contributions, Loop, Wired
from evaluator.core.writes.node_writer import WriteContext
from plimsoll.process import memory
from plimsoll.ratelimit import TokenBucket


class Core:
    """The parts that features use. A reading's way: `agents` → `intake` → `loop` → decisions, which features read."""

    def __init__(self, options: CoreOptions, api: Kube, vocabulary: Vocabulary) -> None:
        """Raises TlsError for unusable certificates and QueriesError for an invalid file of queries."""
        self.options = options
        self.api = api
        self.metrics = Metrics()
        self.isolation = Isolation(self.metrics.internal_errors)
        self.signals = Signals(self.isolation.part)
        self.contributions = Contributions()
        self.cluster = ClusterCache(stale_after=options.cluster_stale_after, signals=self.signals)
        self.vocabulary = replace(vocabulary, conceals=options.ops_authorize)
        self.watches = Watches(
            api, self.cluster, self.metrics, stale_after=options.cluster_stale_after
        )
        self.all_pods = AllPods(self.watches)
        self._store = Store(
            stale_after=options.stale_after,
            started=time.monotonic(),
            grace=options.agent_limits.reconnect,
            reconnect=options.agent_limits.reconnect,
        )
        self.failing_rules = FailingRuleIndex(
            self._store.reported_at, stale_after=options.stale_after
        )
        self.problems = NodeProblems()
        self.causes = NodeCauses()
        self._subscriptions = Subscriptions()
        self._sources = assemble(
            options,
            self._store,
            SourceDependencies(
                api,
                self.cluster,
                self._subscriptions,
                self.metrics,
                self.signals.publish,
                self.isolation.part,
            ),
            period=options.sync_period,
        )
        self.conditions = NodeConditions(epoch=time.time() - time.monotonic())
        self.measured = self._sources.readings
        """The readings of sources."""
        self.readings = WithNodeConditions(self.measured, self.conditions)
        self.placements = Placements(
            Measures(shipped),
            self.cluster.allocatable,
            stale_after=options.stale_after,
            enabled=options.count_placed,
        )
        """The pods placed since the readings."""
        self.loop = self._decision_loop()
        self.intake = Intake(
            self.loop,
            self.metrics,
            conditions=self.conditions,
            failing_rules=self.failing_rules,
            problems=self.problems,
            causes=self.causes,
            registrations=self._sources.registrations,
            placements=self.placements,
            publish=self.signals.publish,
        )
        self.namespace = options.lease_namespace or own_namespace()
        """Of this installation's Lease and ConfigMap."""
        self.fence = WriteFence(publish=self.signals.publish)
        api.fence = self.fence.write
        self.metrics.leader.set_function(self.fence.is_leader)
        self.leader = Leader(
            api,
            self.fence,
            LeaseTimings(options.lease_duration, options.renew_deadline, options.retry_period),
            namespace=self.namespace,
            name=options.lease_name,
            unfit=self.isolation.stuck,
            publish=self.signals.publish,
        )
        self.writes = WriteContext(
            kube=api,
            cluster=self.cluster,
            decider=self.loop,
            bucket=TokenBucket(options.kube_qps, max(1, round(2 * options.kube_qps))),
            is_leader=self.fence.is_leader,
            publish=self.signals.publish,
            stops=self.contributions.stops,
            isolation=self.isolation,
            undone=self.metrics.writes_undone,
        )
        self._agents: AgentServer | None = None
        self.port_restarts = PortRestarts(self.signals.publish)
        """Of the agents' port."""
        self.scheduler_port = SchedulerPort(options, self.metrics)
        self.signals.connect(self._reactions())

    def _decision_loop(self) -> DecisionLoop:
        return DecisionLoop(
            self.cluster,
            self.readings,
            self._subscriptions,
            self.metrics,
            most_metrics=self.options.max_metrics,
            most_rules=self.options.max_rules,
            namespace_metrics=self.options.max_namespace_metrics,
            namespace_rules=self.options.max_namespace_rules,
            similar=SimilarMetrics(
                agents=AGENTS in self.options.sources, conditions=self.conditions.names
            ),
            without_departed=(
                self.placements.without_departed if self.options.count_placed else as_read
            ),
            isolation=self.isolation,
        )

    def _reactions(self) -> Iterator[Reaction]:
        yield from self.loop.reactions()
        yield from self.intake.reactions(count_placed=self.options.count_placed)
        yield on_node(ProblemAcknowledged, self._acknowledged)
        yield on(AgentsPortRestarted, self.port_restarted)
        yield from wakes(self.observe_stopped, StopsChanged)

    def port_restarted(self, restart: AgentsPortRestarted) -> None:
        """Count a restart of the agents' port; readings from before it are fresh for longer."""
        self.metrics.agents_port_restarts.inc()
        self._store.port_restarted(restart.at)

    def observe_stopped(self) -> None:
        """Enforce and observe the policies as they are stopped now."""
        for policy in [*self.cluster.policies.objects.values()]:
            if (now := self._as_stopped(policy)) is not policy:
                self.cluster.policies.put(now)

    def _as_stopped(self, policy: Policy) -> Policy:
        return policy.observed_while(self.contributions.stops().stop(policy.key).observed_by)

    def add(self, wired: Wired, feature: str) -> None:
        """Add what a feature contributes. Features react in the order in which they are added."""
        self.contributions.add(wired)
        self.signals.connect(wired.reacts, feature)
        self.metrics.policy_counters += wired.policy_counters
        for parts in wired.decides:
            self.loop.extend(parts)

    def _acknowledged(self, node: str) -> None:
        if self._agents is not None:
            self._agents.acknowledged(node)

    def connected_agents(self) -> int:
        """Return the number of nodes with a connected agent."""
        return self._agents.connected if self._agents else 0

    def agents(self) -> AgentServer:
        """Return the receiver of agents' reports, made once all features are wired."""
        options = self.options
        server = AgentServer(
            self._store,
            self._subscriptions,
            interval=options.sync_period,
            publish=self.signals.publish,
            patterns=self.loop.extra.patterns,
            acknowledged=self.problems.acknowledged,
            authorizer=authn.authorizer(
                options, self.api, plain=options.agents_plain, exists=self.cluster.may_exist
            ),
            limits=options.agent_limits.for_metrics(options.max_metrics),
            part=self.isolation.part("agents"),
        )
        self._agents = server
        self.metrics.agents.set_function(self.connected_agents)
        return server

    def agent_port(self, server: AgentServer) -> AgentPort | None:
        """Return the port of agents; None if they are no source of readings. Reads its certificate. Raises TlsError."""
        options = self.options
        if AGENTS not in options.sources:
            return None
        certificate = None
        if not options.agents_plain:
            certificate = port_certificates(
                options,
                tls.Files(options.cert, options.key, options.cacert),
                on_change=self.metrics.reloaded("agents"),
                on_load=self.metrics.expires("agents"),
            )
        closed = self.metrics.agents_connections_closed.inc
        return AgentPort(server, options.agent_port, certificate, self.port_restarts, closed)

    def _policy_reflector(self) -> Reflector[Policy]:
        policies = self.cluster.policies
        decode = partial(
            decode_policy,
            observe=self.options.observe,
            vocabulary=self.vocabulary,
            known=WeakValueDictionary(),
            policies=policies.objects,
        )
        return self.watches.reflector(
            resources.POLICIES,
            lambda raw: self._as_stopped(decode(raw)),
            policies,
            partial(policies.mark_unserved, resources.POLICIES.unserved),
        )

    def loops(self) -> list[Loop]:
        """Return the loops of the core. Without leader election, this replica may write from now on."""
        state, watch = self.cluster, self.watches.reflector

        async def watch_policies() -> None:
            """Watch the policies, once it is known how to read them."""
            self.vocabulary = await self.contributions.words(self.vocabulary)
            await self._policy_reflector().run()

        loops = [
            watch_policies,
            watch(resources.NODES, decode_node, state.nodes).run,
            watch(resources.LINKED_PODS, decode_pod, state.pods).run,
            self.loop.run,
            memory.return_unused,
            *(poller.run for poller in self._sources.pollers),
        ]
        if self.all_pods.required:
            loops.append(self.all_pods.reflector().run)
        if self.options.leader_elect:
            loops.append(self.leader.run)
        else:
            self.fence.extend()
        return loops
