"""What agents, polled sources and watches report, on its way to the decision loop."""

import time
from collections.abc import Callable, Mapping, Sequence

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import Metrics
from evaluator.core.model.node import NodeCondition
from evaluator.core.model.pod import Pod
from evaluator.core.placement.ledger import PlacedPod
from evaluator.core.placement.placements import Placements
from evaluator.core.readings.node_conditions import NodeConditions
from evaluator.core.readings.reported import FailingRuleIndex, NodeCauses, NodeProblems
from evaluator.core.sources.agents.calls import Code
from evaluator.core.sources.agents.server import ReportListener
from evaluator.core.sources.build import Registrations
from plimsoll import rfc3339
from wire.failing_rules import FailingRules
from wire.problems import Problems


class Intake(ReportListener):
    """Notes each change, and requests an evaluation if it may change a decision. Times are of one monotonic clock."""

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
        self._clock = clock
        self._wall = wall

    def reported(self, changed: bool) -> None:
        """An agent reported; `changed`: a reading differs from the last one."""
        self._metrics.reports.inc()
        if changed:
            self._loop.touch()

    def similar_reported(self, names: Mapping[str, Sequence[str]]) -> None:
        """An agent reported names of its series that resemble absent metrics, by metric."""
        if self._loop.similar.report(names):
            self._loop.touch()

    def matching_reported(self, names: Sequence[str]) -> None:
        """An agent reported names of its metrics that match the patterns of extra metrics."""
        if self._loop.extra.found(names):
            self._loop.touch()

    def failing_reported(self, node: str, rules: FailingRules) -> None:
        """An agent reported its failing rules, or ended: then there are none."""
        self._failing_rules.report(node, rules, self._clock())

    def problems_reported(self, node: str, problems: Problems) -> None:
        """An agent reported the problems of its node."""
        self._problems.report(node, problems)

    def causes_reported(self, node: str, causes: Mapping[str, str]) -> None:
        """An agent reported what its readings come from. They change with a reading, or decide nothing."""
        self._causes.report(node, causes)

    def refused(self, code: Code) -> None:
        """A stream of an agent was rejected."""
        self._metrics.agents_refused.labels(code).inc()

    def node_changed(self, node: str, registered: bool) -> None:
        """A node was registered, possibly replacing one of the same name, or deleted."""
        self._registrations.changed(node, registered=registered, now=self._clock())
        if not registered:
            self._problems.forget(node)
            self._causes.report(node, {})

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """A pod with a policy label changed; None: it is absent."""
        left, came = _placed(before), _placed(after)
        if left is not None and came is not None and _place(left) == _place(came):
            return
        now = self._clock()
        if left is not None:
            self._placements.gone(*left, now)
        if came is None or after is None:
            return
        observed = before is not None and before.metadata.uid == after.metadata.uid
        bound = None if observed else rfc3339.parse_or_none(after.bound_at)
        age = 0.0 if bound is None else max(0.0, self._wall() - bound)
        self._placements.bound(*came, now - age, now)

    def conditions_changed(self, node: str, conditions: Sequence[NodeCondition]) -> None:
        """The conditions of a node changed."""
        if self._conditions.changed(node, conditions):
            self._loop.touch()


def _placed(pod: Pod | None) -> tuple[PlacedPod, str] | None:
    """Return a running pod with its node; None for any other, or one that names no policy any more."""
    if pod is None or not pod.running or (policy := policy_of(pod)) is None:
        return None
    return PlacedPod(pod.metadata.uid, policy, pod.spec.requests), pod.spec.node_name


def _place(placed: tuple[PlacedPod, str]) -> tuple[str, str]:
    """Return the UID and the node of a pod: its label and its requests may change where it runs."""
    return placed[0].uid, placed[1]
