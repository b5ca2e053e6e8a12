"""Evictions of pods from nodes that violate the deschedule strategy of their policy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.model.pod import Pod
from evaluator.core.model.resources import NOTHING
from evaluator.core.options import FeatureOptions
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.signals import (
    PlacementChanged,
    PodChanged,
    PolicyPodChanged,
    PolicyReportChanged,
    on,
    wakes,
)
from evaluator.core.wiring import Wired
from evaluator.core.writes.node_writer import while_leading
from evaluator.features.evictions.annotations import EVICTED_PODS
from evaluator.features.evictions.controller import (
    EVICTED,
    NOT_EVICTED,
    EvictionController,
    EvictionMetrics,
)
from evaluator.features.evictions.neighbours import Neighbours
from evaluator.features.evictions.plan import (
    ClusterView,
    EvictFields,
    EvictionEffects,
    EvictionRate,
)
from evaluator.features.evictions.report import NotEvictedFields, PolicyStaysFields
from evaluator.features.evictions.successors import POLICY_PODS_ONLY, HasRoom, KnownPods
from plimsoll import durations, flags
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class EvictionOptions(FeatureOptions):
    """Evictions. Times are in seconds."""

    evict: bool = option(
        "evict", False, "evict pods from nodes that violate their policy's deschedule strategy"
    )
    evict_period: float = option(
        "evictPeriod",
        10.0,
        "period in which at most --evictLimit pods of one policy are evicted",
        metavar="DURATION",
        parse=durations.duration,
    )
    evict_limit: int = option(
        "evictLimit", 1, "evictions per policy in one period", metavar="N", parse=flags.count
    )

    evict_needs_room: bool = option(
        "evictNeedsRoom",
        True,
        "evict a pod only if another node has its requests free, where all pods are watched (scorers, gangs); turn it "
        "off where a Pending pod adds a node",
    )

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterable[str]:
        """Yield errors in these flags together, each as a sentence."""
        if self.evict_period <= 0:
            yield "--evictPeriod must be more than 0, or --evictLimit has no effect"


def wire(core: Core, options: EvictionOptions) -> Wired:
    """Evict pods while this replica leads, with --evict; without it, say which would be."""
    metrics = EvictionMetrics(core.metrics.registry)
    cluster = ClusterView(
        running=core.cluster.running,
        feasible_nodes=core.cluster.feasible_nodes,
        may_evict=core.contributions.may_act,
        leaving=core.cluster.leaving,
        placed=core.placements,
    )
    effects = EvictionEffects(cluster, evicting=options.evict)
    said = Wired(
        effects=effects,
        action_kinds=(EVICTED, NOT_EVICTED),
        policy_counters=[metrics.evictions],
        deschedules=options.evict,
    )
    if not options.evict:
        return said
    watched = WatchedPods(core, needs_room=options.evict_needs_room)
    controller = EvictionController(
        core.writes,
        metrics,
        pace=EvictionRate(options.evict_period, options.evict_limit),
        cluster=cluster,
        namespace=core.namespace,
        known=watched.known,
        checked=watched.checked,
        cause_of=core.causes.cause_of,
    )
    report = controller.report
    woken = wakes(controller.wake, PlacementChanged, PolicyReportChanged)
    follows = (
        on(PolicyPodChanged, watched.policy_pod_changed),
        on(PodChanged, watched.pod_changed),
    )
    reacts = (*woken, *follows, *while_leading(controller))
    return replace(
        said,
        reacts=reacts,
        loops=[controller.run],
        policy_part=report.part,
        page=PagePart(policy=report.policy, pod=report.pod),
    )


class WatchedPods:
    """The pods against which successors are checked: all where they are watched, otherwise those with a policy."""

    def __init__(self, core: Core, *, needs_room: bool) -> None:
        self._core = core
        self._cache = core.all_pods.keep_neighbours()
        self._room = _room(core) if needs_room else None
        self._with_policy, self._all = Neighbours(), Neighbours()

    def checked(self) -> str:
        """Return how successors are checked; empty for against all pods."""
        return "" if self._core.all_pods.required else POLICY_PODS_ONLY

    def policy_pod_changed(self, change: PolicyPodChanged) -> None:
        """Follow a pod with a policy."""
        self._with_policy.pod_changed(change.before, change.after)

    def pod_changed(self, change: PodChanged) -> None:
        """Follow any pod."""
        self._all.record_changed(change.before, change.after)

    def known(self) -> KnownPods:
        """Return the known pods as of now."""
        nodes = self._core.cluster.nodes.objects
        if not self._core.all_pods.required:
            return KnownPods(self._with_policy, nodes)
        known = KnownPods(self._all, nodes, complete=lambda: self._cache.synced)
        return known if self._room is None else replace(known, has_room=self._room)


def _room(core: Core) -> HasRoom:
    """Return what tells whether a node has a pod's requests free; all have where not all pods are watched."""

    def has_room(pod: Pod, node: str) -> bool:
        cache, allocatable = core.all_pods.cache, core.cluster.allocatable(node)
        if not core.all_pods.required or not cache.synced or allocatable is None:
            return True
        used = cache.usage.get(node)
        requested = used.requested if used is not None else NOTHING
        # An amount that is not known (NaN) is no obstacle.
        return not any(
            wanted and wanted + taken > has
            for wanted, taken, has in zip(pod.spec.requests, requested, allocatable, strict=True)
        )

    return has_room


FEATURE = Feature(
    name="evictions",
    options=EvictionOptions,
    metrics=EvictionMetrics,
    wire=wire,
    pages=(EvictFields, PolicyStaysFields, NotEvictedFields),
    vocabulary=Vocabulary(actions=(EVICTED_PODS,)),
)
