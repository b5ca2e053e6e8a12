"""What Plimsoll set on a node, as the node has it now: taints and conditions, for pages, for `clean`, and after a restart."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evaluator.core.model.node import Node
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.types import Policy
from evaluator.core.writes.node_plan import NodeOperations, Removal
from evaluator.features.node_actions import names, writes
from evaluator.features.node_actions.annotations import CONDITION, TAINT, TaintsAndConditions
from evaluator.features.node_actions.writes import own_conditions
from plimsoll import rfc3339
from plimsoll.flags import option


def of_node(node: Node | None, prefixes: tuple[str, ...]) -> dict[str, Any]:
    """Return all taints (with one of our key prefixes) and conditions of a node that are ours."""
    if node is None:
        return {"taints": [], "conditions": []}
    own = [taint for taint in node.spec.taints or () if taint.key.startswith(prefixes)]
    return {
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in own
        ],
        "conditions": [
            {
                "type": kind,
                "status": condition.status,
                "reason": condition.reason,
                "since": None if condition.since is None else rfc3339.seconds(condition.since),
            }
            for kind, condition in sorted(writes.own_conditions(node).items())
        ],
    }


def of_policy(node: Node | None, policy: Policy, prefixes: tuple[str, ...]) -> dict[str, Any]:
    """Return the part of it that one policy caused: its taint and its condition."""
    written = of_node(node, prefixes)
    actions, suffix = policy.actions.part(TaintsAndConditions), names.taint_suffix(policy.key)
    keys = {prefix + suffix for prefix in prefixes} if TAINT in actions.kinds else set()
    kind = actions.condition if CONDITION in actions.kinds else None
    return {
        "taints": [taint for taint in written["taints"] if taint["key"] in keys],
        "conditions": [
            condition for condition in written["conditions"] if condition["type"] == kind
        ],
    }


@dataclass(frozen=True, kw_only=True)
class RemovalOptions(FeatureOptions):
    """The flags of `clean` for taints."""

    taint_prefix: str = option(
        "taintPrefix",
        names.DOMAIN,
        "prefix of taint keys beside the usual ones, as the evaluator's flag",
        metavar="PREFIX",
        parse=names.taint_prefix,
    )


def removals(options: RemovalOptions, node: Node) -> Iterator[Removal]:
    """Yield the writes that remove conditions that our field manager owns, and taints with our prefixes."""
    name, prefixes = node.metadata.name, names.own_prefixes(options.taint_prefix)
    if states := writes.compare_conditions(node, {}):
        kinds = ", ".join(sorted(states.before))
        yield Removal(f"condition {kinds}", NodeOperations(name, states.removal, "/status"))
    if patch := writes.compare_taints(node, {}, prefixes):
        keys = sorted({key for key, _ in writes.own_taints(node, prefixes)})
        yield Removal(f"taint {', '.join(keys)}", NodeOperations(name, patch.operations))


class Records:
    """The records of nodes. `prefixes`: those of our taint keys."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes

    def of(self, node: Node) -> dict[str, str]:
        """Return our taints and conditions of a node, by record."""
        records: dict[str, str] = {}
        for taint in node.spec.taints or ():
            for prefix in self._prefixes:
                if taint.key.startswith(prefix):
                    suffix = taint.key.removeprefix(prefix)
                    records[names.taint_record(suffix, taint.effect)] = taint.value
        for kind, condition in own_conditions(node).items():
            records[names.condition_record(kind)] = f"{condition.status}/{condition.reason}"
        return records
