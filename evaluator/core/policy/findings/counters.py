"""Warnings about counters that a policy compares without a rate: they only grow until the node restarts."""

import re
from collections.abc import Sequence

from evaluator.core.policy.hints import counter_hint
from evaluator.core.policy.reductions import Use, is_counter, uses_by_metric
from evaluator.core.policy.types import Operator, Policy

_AMOUNT = re.compile(r".*(_(seconds|bytes|joules?)_total|Octets)")
"""Counters of amounts: on a busy node they are always above 0."""


def warnings(policy: Policy) -> dict[str, str]:
    """Return a warning for each metric that is a counter by its name, sorted; each has the recording rule to write.

    A rule on whether anything was counted, such as `errors_total GreaterThan 0`, can be meant; on seconds or bytes it
    never is.
    """
    uses = uses_by_metric(policy)
    return {
        metric: counter_hint(metric, uses[metric])
        for metric in sorted(uses)
        if is_counter(metric) and not _is_meant(metric, uses[metric])
    }


def _is_meant(metric: str, uses: Sequence[Use]) -> bool:
    return _AMOUNT.fullmatch(metric) is None and all(map(_asks_whether_any, uses))


def _asks_whether_any(use: Use) -> bool:
    """Return whether a rule tells 0 from all other counts."""
    match use:
        case Use(ranks=True):
            return False
        case Use(Operator.GREATER_THAN, target):
            return 0 <= target < 1
        case Use(Operator.LESS_THAN, target):
            return 0 < target <= 1
        case _:
            return use.target == 0
