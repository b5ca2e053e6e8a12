"""What agents, polled sources and watches report, on its way to the decision loop."""

import time
from collections.abc import Callable, Iterator

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import Metrics
from evaluator.core.model.pod import Pod
from evaluator.core.placement.ledger import PlacedPod
from evaluator.core.placement.placements import Placements
from evaluator.core.readings.node_conditions import NodeConditions
from evaluator.core.readings.reported import FailingRuleIndex, NodeCauses, NodeProblems
from evaluator.core.signals import (
    AgentRefused,
    AgentReported,
    CausesReported,
    Decided,
    FailingRulesReported,
    MatchingNamesReported,
    NodeCapacityChanged,
    NodeConditionsChanged,
    NodeRegistered,
    PolicyPodChanged,
    ProblemConditionsChanged,
    ProblemOccurred,
    ProblemsReported,
    Publish,
    Reaction,
    SimilarNamesReported,
    on,
    on_node,
)
from evaluator.core.sources.build import Registrations
from plimsoll import rfc3339


class Intake:
    """Notes what agents and watches report, and requests an evaluation if it may change a decision.

    Times are of one monotonic clock.
    """

    def __init__(
        self,
        loop: DecisionLoop,
        metrics: Metrics,
        *,
        conditions: NodeConditions,
        failing_rules: FailingRuleIndex,
        problems: NodeProblems,
        causes: NodeCauses,
        registrations: Registrations,
        placements: Placements,
        publish: Publish,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._loop = loop
        self._metrics = metrics
        self._conditions = conditions
        self._failing_rules = failing_rules
        self._problems = problems
        self._causes = causes
        self._registrations = registrations
        self._placements = placements
        self._publish = publish
        self._clock = clock
        self._wall = wall

    def reactions(self, *, count_placed: bool) -> Iterator[Reaction]:
        """Return what is noted; with `count_placed`, the pods placed since the readings, too."""
        yield on(AgentReported, self.reported)
        yield on(SimilarNamesReported, self.similar_reported)
        yield on(MatchingNamesReported, self.matching_reported)
        yield on(FailingRulesReported, self.failing_reported)
        yield on(ProblemsReported, self.problems_reported)
        yield on(CausesReported, self.causes_reported)
        yield on(AgentRefused, self.refused)
        yield on(NodeRegistered, self.node_changed)
        yield on(NodeConditionsChanged, self.conditions_changed)
        yield on_node(NodeCapacityChanged, self._placements.capacity_changed)
        if count_placed:
            yield on(PolicyPodChanged, self.pod_changed)
            yield on(Decided, self.follow)

    def follow(self, decided: Decided) -> Iterator[None]:
        """Forget, in steps, the placed pods that new readings show, and learn from them."""
        return self._placements.follow(decided.decisions, decided.at)

    def reported(self, report: AgentReported) -> None:
        """Count a report; evaluate if a reading changed."""
        self._metrics.reports.inc()
        if report.changed:
            self._loop.touch()

    def similar_reported(self, report: SimilarNamesReported) -> None:
        """Keep the names; evaluate if one is new."""
        if self._loop.similar.report(report.names):
            self._loop.touch()

    def matching_reported(self, report: MatchingNamesReported) -> None:
        """Keep the names of extra metrics; evaluate if one is new."""
        if self._loop.extra.found(report.names):
            self._loop.touch()

    def failing_reported(self, report: FailingRulesReported) -> None:
        """Replace the failing rules of a node."""
        self._failing_rules.report(report.node, report.rules, self._clock())

    def problems_reported(self, report: ProblemsReported) -> None:
        """Replace the problems of a node, and publish what is new."""
        if self._problems.report(report.node, report.problems):
            self._publish(ProblemConditionsChanged(report.node))
        for event in report.problems.events:
            self._publish(ProblemOccurred(report.node, event))

    def causes_reported(self, report: CausesReported) -> None:
        """Replace the causes of a node's readings. They change with a reading, or decide nothing."""
        self._causes.report(report.node, report.causes)

    def refused(self, refusal: AgentRefused) -> None:
        """Count a rejected stream."""
        self._metrics.agents_refused.labels(refusal.code).inc()

    def node_changed(self, change: NodeRegistered) -> None:
        """Drop the readings of a node that was replaced or deleted."""
        node, registered = change.node, change.registered
        self._registrations.changed(node, registered=registered, now=self._clock())
        if not registered:
            self._problems.forget(node)
            self._causes.report(node, {})

    def pod_changed(self, change: PolicyPodChanged) -> None:
        """Add a pod that was placed to those that no reading shows, or remove one that left."""
        before, after = change.before, change.after
        left, came = _placed(before), _placed(after)
        if left is not None and came is not None and _place(left) == _place(came):
            return
        now = self._clock()
        if left is not None:
            self._placements.gone(*left, now)
        if came is None or after is None:
            return
        observed = before is not None and before.metadata.uid == after.metadata.uid
        wall = self._wall()
        bound = None if observed else rfc3339.bounded(after.bound_at, wall)
        age = 0.0 if bound is None else wall - bound
        self._placements.bound(*came, now - age, now)

    def conditions_changed(self, change: NodeConditionsChanged) -> None:
        """Replace the conditions of a node; evaluate if a rule may read one."""
        if self._conditions.changed(change.node, change.conditions, self._wall()):
            self._loop.touch()


def _placed(pod: Pod | None) -> tuple[PlacedPod, str] | None:
    """Return a running pod with its node; None for any other, or one that names no policy any more."""
    if pod is None or not pod.running or (policy := policy_of(pod)) is None:
        return None
    return PlacedPod(pod.metadata.uid, policy, pod.spec.requests), pod.spec.node_name


def _place(placed: tuple[PlacedPod, str]) -> tuple[str, str]:
    """Return the UID and the node of a pod: its label and its requests may change where it runs."""
    return placed[0].uid, placed[1]
