"""The loops that write: labels, statuses, events, evictions, nudges, what was learned of pods, gates. One replica's do, by a lease."""

from collections.abc import Coroutine, Set
from typing import Any

from evaluator.cache.cluster import ClusterCache
from evaluator.cache.pods import PodCache
from evaluator.config import Settings
from evaluator.controllers.events import PolicyEventRecorder
from evaluator.controllers.evictions import EvictionController
from evaluator.controllers.node_labels import NodeLabelController
from evaluator.controllers.requeue import RequeueController
from evaluator.controllers.rewards import RewardController
from evaluator.controllers.status import StatusController
from evaluator.engine.loop import DecisionLoop
from evaluator.gangs.build import GangManager
from evaluator.kubeapi.client import Kube
from evaluator.kubeapi.connection import own_namespace
from evaluator.kubeapi.reflector import Reflector
from evaluator.leader.elector import Leader
from evaluator.leader.lease import LeaseTimings
from evaluator.leader.write_fence import WriteFence
from evaluator.metrics import Metrics
from evaluator.model.pod_record import PodRecord
from evaluator.plans import requeue
from evaluator.plans.evictions import EvictionRate
from evaluator.scoring.plugins.reward import REWARD_CONFIG_MAP
from evaluator.scoring.rewards import Rewards
from plimsoll.ratelimit import TokenBucket

_NOTHING_LEARNED = Rewards()


class ControllerManager:
    """All of them, and the election of who may write.

    `inventory` has all pods, and `all_pods` feeds it, where there are scorers or gangs.
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
    ) -> None:
        self._settings = settings
        self._fence = WriteFence()
        is_leader = self._fence.is_leader
        api.guard = self._fence.write
        metrics.leader.set_function(is_leader)
        self._leader = Leader(
            api,
            self._fence,
            LeaseTimings(settings.lease_duration, settings.renew_deadline, settings.retry_period),
            namespace=_namespace(settings),
            name=settings.lease_name,
        )
        self._rewarder: RewardController | None = None
        if "reward" in settings.enabled_scorers:
            self._rewarder = _rewarder(settings, api, cluster, self._fence)
            self._fence.listeners.append(self._rewarder.start_over)
            inventory.listeners.append(self._rewarder.changed)
        bucket = TokenBucket(settings.kube_qps, max(1, round(2 * settings.kube_qps)))
        labeler = NodeLabelController(
            api, cluster, decider, metrics, bucket=bucket, is_leader=is_leader
        )
        self._labeler = labeler
        self._reporter = StatusController(
            api, decider, lambda: labeler.conflicts, said=cluster.status_of, is_leader=is_leader
        )
        self._recorder = PolicyEventRecorder(
            api,
            decider,
            metrics,
            lambda: labeler.conflicts,
            said=cluster.status_of,
            is_leader=is_leader,
        )
        pace = EvictionRate(settings.evict_period, settings.evict_limit)
        self._evictor = EvictionController(
            api, cluster, decider, metrics, pace=pace, is_leader=is_leader
        )
        self._nudger = RequeueController(
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

    @property
    def rewards(self) -> Rewards:
        """What was learned by now of where pods do well."""
        return self._rewarder.rewards if self._rewarder else _NOTHING_LEARNED

    def listen(self, cluster: ClusterCache, decider: DecisionLoop) -> None:
        """Have them told when something changed."""
        cluster.listeners.labels.append(self._labeler.wake)
        cluster.listeners.placement += [self._evictor.wake, self._nudger.wake]
        self._labeler.listeners += [self._reporter.wake, self._recorder.wake]
        self._fence.listeners += [
            self._labeler.start_over,
            self._reporter.start_over,
            self._recorder.start_over,
            self._evictor.start_over,
            self._nudger.wake,
        ]
        decider.listeners += [
            self._labeler.wake,
            self._reporter.wake,
            self._evictor.wake,
            self._recorder.wake,
            self._nudger.decided,
        ]

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Those that the flags ask for. Without an election, this replica may write from now on."""
        loops = [self._labeler.run(), self._reporter.run(), self._recorder.run()]
        if self._settings.evict:
            loops.append(self._evictor.run())
        if self._settings.nudge:
            loops.append(self._nudger.run())
        if self._rewarder is not None:
            loops.append(self._rewarder.run())
        if self.gangs is not None:
            loops += self.gangs.loops()
        if self._settings.leader_elect:
            loops.append(self._leader.run())
        else:
            self._fence.extend()
        return loops

    async def release(self) -> None:
        """Let another replica write, at once."""
        await self._leader.release()


def _namespace(settings: Settings) -> str:
    """Of what belongs to this installation and not to a node, a pod or a policy."""
    return settings.lease_namespace or own_namespace()


def _rewarder(
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
    """Seconds until every replica has decided on what one of them has read: agents tell all at once, pollers do not."""
    return 0.1 if settings.sources == ("agents",) else settings.sync_period + 0.1
