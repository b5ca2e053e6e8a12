"""Logs changes of decisions, in the wording of Telemetry Aware Scheduling."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from evaluator.core.model.node_index import NodeIndex, NodeMask, Reindex
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.violations import ViolationReasons, violators
from plimsoll import logs
from plimsoll.text import counted

log = logs.get(__name__)

_NAMED = 10
"""Nodes logged by name for one change of a policy."""


def log_changes(before: Decisions, after: Decisions) -> Iterator[None]:
    """Log what changed, one policy with each step.

    Nodes are compared as masks; only those that are named get their reasons. The reasons of all nodes take milliseconds.
    """
    compare = _comparison(before.table.nodes, after.table.nodes)
    for key, decision in after.policies.items():
        old = before.policies.get(key, Decision(decision.policy))
        mode = {"mode": "observe"} if decision.policy.observed else {}
        context = log.bind(policy=str(key), **mode)
        changes = [
            (strategy.value, now, *compare(old.violations[strategy], now))
            for strategy, now in decision.violations.items()
            if now is not old.violations[strategy]
        ]
        if key not in before.policies or any(one.count or two.count for *_, one, two in changes):
            context.info("Evaluating %s", key.name)
        cleared = f"no longer violating {key.name}"
        for strategy, now, entered, left in changes:
            reasons, rest = _reasons(now, entered), f"violating {key.name}"
            _name(context.info, reasons, rest, nodes=entered.count, strategy=strategy)
            reasons = dict.fromkeys(left.names[:_NAMED], cleared)
            _name(context.info, reasons, cleared, nodes=left.count, strategy=strategy)
        for problem in decision.problems:
            if problem not in old.problems:
                context.warning("problem in policy %s: %s", key.name, problem)
        known = old.policy.warnings if key in before.policies else ()
        for warning in decision.policy.warnings:
            if warning not in known:
                context.warning("policy %s: %s", key.name, warning)
        yield
    for key in before.policies.keys() - after.policies.keys():
        log.info("policy %s is gone", key.name, policy=str(key))


def _comparison(
    before: NodeIndex, after: NodeIndex
) -> Callable[[Mapping[str, str], Mapping[str, str]], tuple[NodeMask, NodeMask]]:
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
