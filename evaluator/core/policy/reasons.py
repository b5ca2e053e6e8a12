"""The texts of violations, as kube-scheduler shows them in FailedNodes and the pod's condition."""

import numpy as np
import numpy.typing as npt

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.evaluate import Violations
from evaluator.core.policy.types import Rule, Strategy


def reason_prefix(policy: str) -> str:
    """Return the text that each reason of a policy starts with; it identifies the policy in a pod's condition."""
    return f"violating {policy}: "


def refuses(policy: str, message: str) -> bool:
    """Return whether a message of kube-scheduler has a reason of this policy."""
    return reason_prefix(policy) in message


def reasons(policy: str, strategy: Strategy, nodes: NodeIndex, found: Violations) -> dict[str, str]:
    """Map each violating node to a reason that is constant for a rule.

    It contains no reading: kube-scheduler writes the text to the pod, and retries a pod at once when it changes.
    """
    names = nodes.at(found.violated)
    if not names:
        return {}
    texts, which = _texts(strategy, found)
    prefixed = [f"{reason_prefix(policy)}{text}" for text in texts]
    if len(prefixed) == 1:
        return dict.fromkeys(names, prefixed[0])
    return dict(zip(names, map(prefixed.__getitem__, which.tolist()), strict=True))


def _texts(strategy: Strategy, found: Violations) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Return the distinct reasons, and for each violating node the index of its reason."""
    if (len(strategy.rules) == 1 or strategy.all_of) and not found.missing.any():
        text = " and ".join(map(str, strategy.rules))
        return [text], np.zeros(np.count_nonzero(found.violated), np.intp)
    if strategy.all_of:
        return _texts_of_all(strategy, found)
    first = found.first()
    by_missing = found.missing[found.violated.nonzero()[0], first]
    codes = 2 * first + by_missing
    used_codes = np.bincount(codes).nonzero()[0]
    texts = [
        _text(strategy.rules[code // 2], missing=code % 2 == 1) for code in used_codes.tolist()
    ]
    return texts, np.searchsorted(used_codes, codes)


def _texts_of_all(strategy: Strategy, found: Violations) -> tuple[list[str], npt.NDArray[np.intp]]:
    patterns, which = np.unique(found.missing[found.violated], axis=0, return_inverse=True)
    texts = []
    for pattern in patterns.tolist():
        parts = zip(strategy.rules, pattern, strict=True)
        texts.append(" and ".join(_text(rule, missing=missing) for rule, missing in parts))
    return texts, which.reshape(-1)


def _text(rule: Rule, *, missing: bool) -> str:
    return f"{rule.metric} is missing" if missing else str(rule)
