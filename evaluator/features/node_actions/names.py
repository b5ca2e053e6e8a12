"""Names of the taints and conditions of a policy, derived so that two policies never share a taint.

Taints have no owner in the API: everything with the key prefix is taken for ours.
"""

import hashlib
import re
from collections.abc import Collection

from evaluator.core.model import node_labels
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import KUBERNETES_CONDITIONS
from evaluator.core.policy.strategies import StrategyName
from plimsoll.text import shown

DOMAIN = "plimsoll.io/"
"""Prefix of condition types, and the default prefix of taint keys."""
AUTOSCALER = "status-taint.cluster-autoscaler.kubernetes.io/plimsoll-"
"""Prefix of taint keys that Cluster Autoscaler leaves out of its node templates."""
_LONGEST = 63
_LONGEST_OF_POLICY = 43
_DIGEST = 8

NOT_VIOLATED = "False/Cleared"
"""Status and reason of a node condition after the violation."""

RESERVED = KUBERNETES_CONDITIONS
"""Condition types that policies cannot name."""


def taint_prefix(text: str) -> str:
    """Check a prefix of taint keys; it must name Plimsoll, since all taints with it are ours. Raises ValueError."""
    domain, separator, begin = text.partition("/")
    flaw = node_labels.key_flaw(f"{domain}/{begin}x") if separator else "it has no '/'"
    if not flaw and len(begin) > _LONGEST - _LONGEST_OF_POLICY:
        flaw = f"more than {_LONGEST - _LONGEST_OF_POLICY} characters after the '/'"
    if flaw:
        raise ValueError(f"not a prefix of taint keys: {shown(text)}: {flaw}")
    if "plimsoll" not in text:
        raise ValueError(
            f"not a prefix of our own: {shown(text)}: it must contain `plimsoll`, since every taint with it is taken off; "
            f"for Cluster Autoscaler, use {AUTOSCALER}"
        )
    return text


def own_prefixes(prefix: str) -> tuple[str, ...]:
    """Return the prefixes of our taint keys: taints with one of the usual prefixes stay ours when the flag changes."""
    return tuple(dict.fromkeys((prefix, AUTOSCALER, DOMAIN)))


def taint_suffix(policy: PolicyKey) -> str:
    """Return what follows the prefix in the taint key of a policy: `<namespace>.<name>`, shortened by a digest.

    A namespace has no dots, so two policies never have the same key.
    """
    name = f"{policy.namespace}.{policy.name}"
    if len(name) > _LONGEST_OF_POLICY:
        digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
        name = f"{name[: _LONGEST_OF_POLICY - _DIGEST - 1].rstrip('.-_')}-{digest}"
    return name


def taint_key(prefix: str, policy: PolicyKey) -> str:
    """Return the taint key of a policy: `plimsoll.io/<namespace>.<name>`."""
    return prefix + taint_suffix(policy)


def taint_record(suffix: str, effect: str) -> str:
    """Return the name of a taint among the records of a node, from which decisions restore violations after a restart."""
    return f"taint {suffix} {effect}"


def condition_record(kind: str) -> str:
    """Return the name of a condition among the records of a node."""
    return f"condition {kind}"


def violated(strategy: StrategyName) -> str:
    """Return status and reason of a node condition where a strategy is violated."""
    return f"True/{strategy.row.condition}"


def condition_type(policy: str) -> str:
    """Return the default condition type of a policy: `plimsoll.io/MemoryPressure` for `memory-pressure`."""
    words = re.split(r"[^a-zA-Z0-9]+", policy)
    return DOMAIN + "".join(word[:1].upper() + word[1:] for word in words)[:_LONGEST]


def permitted(condition: str, types: Collection[str]) -> bool:
    """Return whether a policy may set a condition: with our prefix always, else if one of `types` matches."""
    return condition.startswith(DOMAIN) or any(
        condition.startswith(kind[:-1]) if kind.endswith("*") else condition == kind
        for kind in types
    )


def condition_types(text: str) -> str:
    """Check comma-separated condition types; `*` at the end stands for any characters. Raises ValueError."""
    types = [kind.strip() for kind in text.split(",")]
    for kind in types:
        begin = f"{kind[:-1]}x" if kind.endswith("*") else kind
        if flaw := condition_flaw(begin):
            raise ValueError(
                f"not a condition type: {shown(kind)}: {flaw}; write it like KernelDeadlock or example.com/*"
            )
    return ",".join(types)


def condition_flaw(name: str) -> str | None:
    """Return the error of a condition type that a policy names; None if it is valid."""
    if name in RESERVED:
        return f"{name} is a condition of Kubernetes"
    return node_labels.key_flaw(name)
