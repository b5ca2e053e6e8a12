"""What follows each new decision, in small steps: gauges are updated, changes logged, and replaced decisions freed."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from structlog.stdlib import BoundLogger

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.metrics import Metrics, PolicyGauge
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex, NodeMask, Reindex
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.violations import ViolationReasons, violators
from plimsoll import logs
from plimsoll.text import counted

log = logs.get(__name__)

_SAME = 100
"""Policies looked at with one step where nothing changed: some hundredths of a millisecond."""

Figures = Mapping[tuple[PolicyGauge, tuple[str, ...]], float]
"""(gauge, label values) → value."""


class PolicyGauges:
    """Owns the gauges of policies. Only changed values are written: of thousands, a few change per evaluation."""

    def __init__(self, metrics: Metrics, guard: Guard = UNGUARDED) -> None:
        """`guard` takes what one policy raises."""
        self._guard = guard
        self._metrics = metrics
        self._shown: dict[PolicyKey, tuple[Decision, Figures]] = {}
        """By policy, the decision that its gauges show, and their values."""

    def show(self, decisions: Decisions) -> Iterator[None]:
        """Update the gauges, one changed policy per step."""
        metrics = self._metrics
        metrics.decided_timestamp.set_to_current_time()
        metrics.policies.set(len(decisions.policies))
        metrics.nodes.set(len(decisions.table.nodes))
        for key in self._shown.keys() - decisions.policies.keys():
            self._change(self._shown.pop(key)[1], {})
            metrics.forget(*key)
        for number, (key, decision) in enumerate(decisions.policies.items()):
            update = partial(self._update, key, decision, decisions.table)
            if self._guard.run(f"gauges of {key}", update, True) or number % _SAME == 0:
                yield

    def _update(self, key: PolicyKey, decision: Decision, table: MetricTable) -> bool:
        """Update the gauges of a policy; return whether there was something to do."""
        before, shown = self._shown.get(key, (None, {}))
        figures, same = shown, before is not None and decision.same_as(before)
        if not same:
            figures = self._figures(key, decision, table)
            self._change(shown, figures)
        self._shown[key] = decision, figures
        return not same

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
            if any(rule.peers for rule in state.rules):
                figures[metrics.held_back_nodes, of] = state.held_back_nodes
            figures[metrics.timed_nodes, (*of, "pending")] = state.pending
            figures[metrics.timed_nodes, (*of, "clearing")] = state.clearing
        figures[metrics.metrics_not_found, key] = len(decision.not_found)
        for metric in decision.policy.metrics:
            of_metric, absent = (*key, metric), decision.absent.count(metric)
            strict = metric in decision.policy.strict_metrics
            missing = decision.missing.count(metric) + (absent if strict else 0)
            figures[metrics.missing_readings, of_metric] = missing
            if absent:
                figures[metrics.absent_readings, of_metric] = absent
        return figures


_NAMED = 10
"""Nodes logged by name for one change of a policy."""


def log_changes(before: Decisions, after: Decisions, guard: Guard = UNGUARDED) -> Iterator[None]:
    """Log what changed, one changed policy with each step, in the wording of Telemetry Aware Scheduling.

    Nodes are compared as masks; only those that are named get their reasons. The reasons of all nodes take milliseconds.
    `guard` takes what one policy raises.
    """
    compare = _comparison(before.table.nodes, after.table.nodes)
    for number, (key, decision) in enumerate(after.policies.items()):
        known = before.policies.get(key)
        if known is not None and decision.same_as(known):
            if number % _SAME == 0:
                yield
            continue
        guard.run(f"changes of {key}", partial(_log_changed, known, decision, compare), None)
        yield
    for key in before.policies.keys() - after.policies.keys():
        log.info("policy %s is gone", key.name, policy=str(key))


def _log_changed(known: Decision | None, decision: Decision, compare: "_Comparison") -> None:
    """Log what changed for a policy; `known`: its decision before."""
    key, old = decision.policy.key, known or Decision(decision.policy)
    mode = {"mode": "observe"} if decision.policy.observed else {}
    context = log.bind(policy=str(key), **mode)
    changes = [
        (strategy.value, now, *compare(old.violations[strategy], now))
        for strategy, now in decision.violations.items()
        if now is not old.violations[strategy]
    ]
    if known is None or any(one.count or two.count for *_, one, two in changes):
        context.info("Evaluating %s", key.name)
    cleared = f"no longer violating {key.name}"
    for strategy, now, entered, left in changes:
        reasons, rest = _reasons(now, entered), f"violating {key.name}"
        _name(context.info, reasons, rest, nodes=entered.count, strategy=strategy)
        reasons = dict.fromkeys(left.names[:_NAMED], cleared)
        _name(context.info, reasons, cleared, nodes=left.count, strategy=strategy)
    _log_problems(context, key.name, known, decision)


def _log_problems(
    context: BoundLogger, name: str, before: Decision | None, after: Decision
) -> None:
    """Log the problems and warnings of a policy that are new."""
    problems, warnings = (before.problems, before.policy.warnings) if before else ((), ())
    for problem in after.problems:
        if problem not in problems:
            context.warning("problem in policy %s: %s", name, problem)
    for warning in after.policy.warnings:
        if warning not in warnings:
            context.warning("policy %s: %s", name, warning)


_Comparison = Callable[[Mapping[str, str], Mapping[str, str]], tuple[NodeMask, NodeMask]]


def _comparison(before: NodeIndex, after: NodeIndex) -> _Comparison:
    """Return a function from a strategy's violators then and now to the nodes that began and those that ceased to violate it."""
    forward, backward = Reindex(before, after), Reindex(after, before)

    def compare(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[NodeMask, NodeMask]:
        old, new = violators(was, before), violators(now, after)
        entered = NodeMask(after, new & ~forward.mask(old))
        return entered, NodeMask(before, old & ~backward.mask(new))

    return compare


def _reasons(now: Mapping[str, str], nodes: NodeMask) -> Mapping[str, str]:
    """Return the reasons of the first few nodes."""
    if not isinstance(now, ViolationReasons):
        return {}
    few = np.zeros_like(nodes.mask)
    few[nodes.mask.nonzero()[0][:_NAMED]] = True
    return now.some(few)


def _name(
    info: Callable[..., None], reasons: Mapping[str, str], rest: str, *, nodes: int, strategy: str
) -> None:
    """Log one line for each node in `reasons`, and one for the rest of `nodes`, which may be thousands."""
    for node, text in reasons.items():
        info("%s %s", node, text, node=node, strategy=strategy)
    if more := nodes - len(reasons):
        info("%s %s", counted(more, "more node"), rest, nodes=more, strategy=strategy)


_COLUMNS = 20
"""Columns freed with one step: the arrays of a column take some microseconds each."""


def release(held: list[Decisions]) -> Iterator[None]:
    """Take decisions out of the list and free them: one policy, or some columns, with each step.

    Freeing those of 100 policies of 100 rules on 1,000 metrics at once takes 10 ms. What a page or a controller still uses is
    freed when that ends.
    """
    decisions = held.pop()
    policies = list(decisions.policies.values())
    columns = list(decisions.table.prepared.values())
    readings = list(decisions.table.columns.values())
    del decisions
    while policies:
        policies.pop()
        yield
    while columns or readings:
        del columns[-_COLUMNS:]
        del readings[-_COLUMNS:]
        yield
