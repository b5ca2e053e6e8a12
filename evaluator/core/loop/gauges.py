"""Gauges of decisions. Only changed values are written: of thousands, a few change per evaluation."""

from collections.abc import Iterator, Mapping

from evaluator.core.metrics import Metrics, PolicyGauge
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable

Figures = Mapping[tuple[PolicyGauge, tuple[str, ...]], float]
"""(gauge, label values) → value."""


class PolicyGauges:
    """Owns the gauges of policies and their current values."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._shown: dict[PolicyKey, Figures] = {}

    def show(self, decisions: Decisions) -> Iterator[None]:
        """Update the gauges, one policy per step."""
        metrics = self._metrics
        metrics.decided_timestamp.set_to_current_time()
        metrics.policies.set(len(decisions.policies))
        metrics.nodes.set(len(decisions.table.nodes))
        for key in self._shown.keys() - decisions.policies.keys():
            self._change(self._shown.pop(key), {})
            metrics.forget(*key)
        for key, decision in decisions.policies.items():
            figures = self._figures(key, decision, decisions.table)
            self._change(self._shown.get(key, {}), figures)
            self._shown[key] = figures
            yield

    @staticmethod
    def _change(shown: Figures, figures: Figures) -> None:
        if shown == figures:
            return
        for (gauge, labels), figure in figures.items():
            if shown.get((gauge, labels)) != figure:
                gauge.set(labels, figure)
        for gauge, labels in shown.keys() - figures.keys():
            gauge.remove(labels)

    def _figures(self, key: PolicyKey, decision: Decision, table: MetricTable) -> Figures:
        metrics = self._metrics
        figures: dict[tuple[PolicyGauge, tuple[str, ...]], float] = {
            (metrics.policy_problems, key): len(decision.problems) - len(decision.not_found)
        }
        mode = "observe" if decision.policy.observed else "enforce"
        for strategy, violating in decision.violations.items():
            figures[metrics.violating_nodes, (*key, strategy.value, mode)] = len(violating)
        for strategy, state in decision.states.items():
            of = (*key, strategy.value)
            figures[metrics.missing_violations, of] = state.missing_violations
            figures[metrics.timed_nodes, (*of, "pending")] = state.pending
            figures[metrics.timed_nodes, (*of, "clearing")] = state.clearing
        figures[metrics.metrics_not_found, key] = len(decision.not_found)
        for metric in decision.policy.metrics:
            figures[metrics.missing_readings, (*key, metric)] = decision.missing.count(metric)
        return figures
