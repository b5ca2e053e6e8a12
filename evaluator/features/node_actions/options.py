"""Flags of the actions on nodes."""

from dataclasses import dataclass

from evaluator.core.policy.actions import names
from evaluator.core.policy.actions.types import CLUSTER_LIMIT, NodeLimit, node_limit
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class NodeActionOptions:
    """Which actions policies may take on nodes, and the limit of all policies together."""

    taints: bool = option(
        "taints",
        False,
        "set the taints of policies with plimsoll.io/actions: taint; without it, left-over taints are taken off",
    )
    conditions: bool = option(
        "conditions",
        False,
        "set the node conditions of policies with plimsoll.io/actions: condition",
    )
    condition_types: tuple[str, ...] = option(
        "conditionTypes",
        (),
        f"condition types that policies may set beside those with the prefix {names.DOMAIN}, such as KernelDeadlock or "
        "example.com/*; repeatable, or separated by commas. Remedy systems may act on such conditions",
        metavar="TYPE",
        parse=names.condition_types,
    )
    allow_no_execute: bool = option(
        "allowNoExecute",
        False,
        "permit taints with effect NoExecute, which delete pods and ignore PodDisruptionBudgets; NoSchedule with --evict "
        "respects them",
    )
    max_acted_nodes: NodeLimit = option(
        "maxActedNodes",
        CLUSTER_LIMIT,
        "the most nodes, as a number or percentage, with a hard taint (NoSchedule, NoExecute) or evictions, over all policies; "
        "the limit of one policy is its annotation plimsoll.io/max-nodes, by default 20%",
        metavar="N|N%",
        parse=node_limit,
    )
    taint_prefix: str = option(
        "taintPrefix",
        names.DOMAIN,
        f"prefix of taint keys; {names.AUTOSCALER} where Cluster Autoscaler runs",
        metavar="PREFIX",
        parse=names.taint_prefix,
    )

    @property
    def permitted_conditions(self) -> tuple[str, ...]:
        """The types and patterns of --conditionTypes."""
        return tuple(one for given in self.condition_types for one in given.split(","))
