"""What the log says of new decisions, in the words that users of Telemetry Aware Scheduling look for."""

from collections.abc import Iterator, Mapping

import structlog

from evaluator.policy.decide import Decision, Decisions
from plimsoll import logs
from plimsoll.text import counted

log = logs.get(__name__)

_NAMED = 10
"""Nodes that the log names when a policy's view of many changes."""


def log_changes(before: Decisions, after: Decisions) -> Iterator[None]:
    """Log what changed, one policy with each step."""
    for key, decision in after.policies.items():
        old = before.policies.get(key, Decision(decision.policy))
        context = log.bind(policy=str(key))
        changes = [
            (strategy.value, old.violations[strategy], now)
            for strategy, now in decision.violations.items()
            if now is not old.violations[strategy]
        ]
        if key not in before.policies or any(was != now for _, was, now in changes):
            context.info("Evaluating %s", key.name)
        for strategy, was, now in changes:
            new = {node: now[node] for node in now.keys() - was.keys()}
            _name(context, new, f"violating {key.name}", strategy)
            cleared = f"no longer violating {key.name}"
            _name(context, dict.fromkeys(was.keys() - now.keys(), cleared), cleared, strategy)
        for problem in decision.problems:
            if problem not in old.problems:
                context.warning("problem in policy %s: %s", key.name, problem)
        yield
    for key in before.policies.keys() - after.policies.keys():
        log.info("policy %s is gone", key.name, policy=str(key))


def _name(
    context: structlog.stdlib.BoundLogger, told: Mapping[str, str], rest: str, strategy: str
) -> None:
    """A line for each node, up to some: what befalls all nodes at once must not cost a line for each of thousands."""
    some = sorted(told)[:_NAMED]
    for node in some:
        context.info("%s %s", node, told[node], node=node, strategy=strategy)
    if more := len(told) - len(some):
        context.info("%s %s", counted(more, "more node"), rest, nodes=more, strategy=strategy)
