"""Builds the controllers, connects them to the caches and decisions, and elects the leader that writes."""

from collections.abc import Coroutine, Mapping, Set
from typing import Any

from evaluator.config import Settings
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.kube.client import Kube
from evaluator.core.kube.connection import own_namespace
from evaluator.core.kube.reflector import Reflector
from evaluator.core.leader.elector import Leader
from evaluator.core.leader.lease import LeaseTimings
from evaluator.core.leader.write_fence import WriteFence
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import Metrics
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod_record import PodRecord
from evaluator.features.evictions.controller import EvictionController
from evaluator.features.evictions.plan import EvictionRate
from evaluator.features.gangs.build import GangManager
from evaluator.features.labels.controller import NodeLabelController
from evaluator.features.node_actions.condition_controller import NodeConditionController
from evaluator.features.node_actions.planner import NodeActionPlanner
from evaluator.features.node_actions.taint_controller import NodeTaintController
from evaluator.features.node_actions.types import ActionSettings, PolicyActions
from evaluator.features.requeue import plan as requeue
from evaluator.features.requeue.controller import RequeueController
from evaluator.features.scorers.plugins.reward import REWARD_CONFIG_MAP
from evaluator.features.scorers.reward_controller import RewardController
from evaluator.features.scorers.rewards import Rewards
from evaluator.features.status.controller import StatusController
from evaluator.features.status.enforcement import Effects
from evaluator.features.status.event_recorder import PolicyEventRecorder
from evaluator.features.status.pod_controller import PolicyPodController
from plimsoll.ratelimit import TokenBucket

_NOTHING_LEARNED = Rewards()


class ControllerManager:
    """All controllers and the leader election.

    `inventory` has all pods if scorers or gangs are on; `all_pods` is the reflector that feeds it.
    """

    def __init__(
        self,
        settings: Settings,
        api: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: Metrics,
        *,
        inventory: PodCache,
        all_pods: Reflector[PodRecord] | None,
        effects: Effects,
    ) -> None:
        self._settings = settings
        self._fence = WriteFence()
        is_leader = self._fence.is_leader
        api.fence = self._fence.write
        metrics.leader.set_function(is_leader)
        self._leader = Leader(
            api,
            self._fence,
            LeaseTimings(settings.lease_duration, settings.renew_deadline, settings.retry_period),
            namespace=_namespace(settings),
            name=settings.lease_name,
        )
        self._rewards: RewardController | None = None
        if "reward" in settings.enabled_scorers:
            self._rewards = _rewards(settings, api, cluster, self._fence)
            self._fence.listeners.append(self._rewards.start_over)
            inventory.listeners.append(self._rewards.changed)
        bucket = TokenBucket(settings.kube_qps, max(1, round(2 * settings.kube_qps)))
        node_labels = NodeLabelController(
            api, cluster, decider, metrics, bucket=bucket, is_leader=is_leader
        )
        self._labels = node_labels
        self._planner = NodeActionPlanner(cluster, decider, metrics, _actions(settings))
        self._taints = NodeTaintController(
            api, cluster, decider, metrics, self._planner, bucket=bucket, is_leader=is_leader
        )
        self._conditions = NodeConditionController(
            api, cluster, decider, metrics, self._planner, bucket=bucket, is_leader=is_leader
        )
        self._pods = PolicyPodController(api, cluster, decider, metrics, is_leader=is_leader)

        def reports() -> bool:
            """Whether this replica may write, and knows the actions that statuses and Events report."""
            return is_leader() and self._planner.ready

        self._status = StatusController(
            api,
            decider,
            lambda: node_labels.conflicts,
            effects,
            pods_of=self._pods.counts_of,
            similar_to=decider.similar.to,
            actions=self.actions,
            status_of=cluster.status_of,
            is_leader=reports,
        )
        self._recorder = PolicyEventRecorder(
            api,
            decider,
            metrics,
            lambda: node_labels.conflicts,
            similar_to=decider.similar.to,
            actions=self.actions,
            status_of=cluster.status_of,
            is_leader=reports,
        )
        pace = EvictionRate(settings.evict_period, settings.evict_limit)
        self._evictions = EvictionController(
            api,
            cluster,
            decider,
            metrics,
            pace=pace,
            may_evict=self._planner.may_evict,
            is_leader=is_leader,
        )
        self._requeue = RequeueController(
            api,
            cluster,
            decider,
            metrics,
            is_leader=is_leader,
            pace=requeue.RequeueTimings(settle=_settling(settings)),
        )
        self.gangs: GangManager | None = None
        if settings.gangs and all_pods is not None:
            self.gangs = GangManager(
                settings,
                api,
                cluster,
                decider,
                metrics,
                inventory=inventory,
                fence=self._fence,
                list_anew=all_pods.list_anew,
            )

    def is_leader(self) -> bool:
        """Return whether this replica may write."""
        return self._fence.is_leader()

    def leader(self) -> str:
        """Return the replica that holds the lease, as last read; empty if none does, or without leader election."""
        return self._leader.holder

    def actions(self) -> Mapping[PolicyKey, PolicyActions]:
        """Return the current plan of taints and conditions, by policy."""
        return self._planner.latest.policies

    @property
    def rewards(self) -> Rewards:
        """The learned values of the scorer `reward`."""
        return self._rewards.rewards if self._rewards else _NOTHING_LEARNED

    def listen(self, cluster: ClusterCache, decider: DecisionLoop) -> None:
        """Subscribe the controllers to changes."""
        cluster.listeners.labels.append(self._labels.wake)
        cluster.listeners.actions += [
            self._planner.changed,
            self._taints.wake,
            self._conditions.wake,
        ]
        self._planner.listeners += [
            self._taints.wake,
            self._conditions.wake,
            self._evictions.wake,
            self._status.wake,
            self._recorder.wake,
        ]
        cluster.listeners.placement += [
            self._evictions.wake,
            self._requeue.wake,
            self._pods.wake,
            self._status.pods_changed,
        ]
        self._pods.listeners.append(self._status.wake)
        self._labels.listeners += [self._status.wake, self._recorder.wake]
        self._fence.listeners += [
            self._labels.start_over,
            self._taints.start_over,
            self._conditions.start_over,
            self._status.start_over,
            self._recorder.start_over,
            self._evictions.start_over,
            self._pods.start_over,
            self._requeue.wake,
        ]
        decider.listeners += [
            self._labels.wake,
            self._planner.wake,
            self._status.wake,
            self._evictions.wake,
            self._recorder.wake,
            self._pods.wake,
            self._requeue.decided,
        ]

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """The loops of the enabled controllers. Without leader election, this replica may write from now on."""
        loops = [self._labels.run(), self._status.run(), self._recorder.run(), self._pods.run()]
        loops += [self._planner.run(), self._taints.run()]
        if self._settings.conditions:
            loops.append(self._conditions.run())
        if self._settings.evict:
            loops.append(self._evictions.run())
        if self._settings.nudge:
            loops.append(self._requeue.run())
        if self._rewards is not None:
            loops.append(self._rewards.run())
        if self.gangs is not None:
            loops += self.gangs.loops()
        if self._settings.leader_elect:
            loops.append(self._leader.run())
        else:
            self._fence.extend()
        return loops

    async def release(self) -> None:
        """Release the lease, so that another replica can lead at once."""
        await self._leader.release()


def _actions(settings: Settings) -> ActionSettings:
    return ActionSettings(
        taints=settings.taints,
        conditions=settings.conditions,
        no_execute=settings.allow_no_execute,
        evict=settings.evict,
        prefix=settings.taint_prefix,
        condition_types=settings.permitted_conditions,
        most=settings.max_acted_nodes,
    )


def _namespace(settings: Settings) -> str:
    """The namespace of this installation's Lease and ConfigMap."""
    return settings.lease_namespace or own_namespace()


def _rewards(
    settings: Settings, api: Kube, cluster: ClusterCache, fence: WriteFence
) -> RewardController:
    def nodes() -> Set[str]:
        return cluster.nodes.objects.keys() if cluster.nodes.synced else set()

    return RewardController(
        api,
        settings.no_rewards,
        nodes,
        namespace=_namespace(settings),
        name=REWARD_CONFIG_MAP,
        is_leader=fence.is_leader,
    )


def _settling(settings: Settings) -> float:
    """Seconds until every replica has decided on the same readings: agents report to all at once, pollers read separately."""
    return 0.1 if settings.sources == ("agents",) else settings.sync_period + 0.1
