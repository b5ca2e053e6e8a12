"""What agents, polled sources and watches report, on its way to the decision loop."""

import time
from collections.abc import Callable, Mapping, Sequence

import grpc

from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import Metrics
from evaluator.core.model.node import NodeCondition
from evaluator.core.readings.failing_rules import FailingRuleIndex
from evaluator.core.readings.node_conditions import NodeConditions
from evaluator.core.sources.agents.server import ReportListener
from evaluator.core.sources.registrations import Registrations
from wire.failing_rules import FailingRules


class Intake(ReportListener):
    """Notes each change, and requests an evaluation if it may change a decision. Times are of one monotonic clock."""

    def __init__(
        self,
        loop: DecisionLoop,
        metrics: Metrics,
        *,
        conditions: NodeConditions,
        failing_rules: FailingRuleIndex,
        registrations: Registrations,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._metrics = metrics
        self._conditions = conditions
        self._failing_rules = failing_rules
        self._registrations = registrations
        self._clock = clock

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

    def refused(self, code: grpc.StatusCode) -> None:
        """A stream of an agent was rejected."""
        self._metrics.agents_refused.labels(code.name).inc()

    def node_changed(self, node: str, registered: bool) -> None:
        """A node was registered, possibly replacing one of the same name, or deleted."""
        self._registrations.changed(node, registered=registered, now=self._clock())

    def conditions_changed(self, node: str, conditions: Sequence[NodeCondition]) -> None:
        """The conditions of a node changed."""
        if self._conditions.changed(node, conditions):
            self._loop.touch()
