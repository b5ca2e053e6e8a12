"""Taints and conditions of nodes that violate a policy, within limits of nodes."""

from collections.abc import Iterator
from dataclasses import dataclass

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature, Written
from evaluator.core.loop.loop import DecisionParts
from evaluator.core.model.node import Node
from evaluator.core.model.node_labels import FIELD_MANAGER
from evaluator.core.options import FeatureOptions
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.policy_status import PolicyPart
from evaluator.core.signals import (
    Decided,
    LeadershipGained,
    NodeActionsChanged,
    StopsChanged,
    on_node,
    wakes,
)
from evaluator.core.wiring import Wired
from evaluator.core.writes import conditions
from evaluator.core.writes.conditions import ConditionApply
from evaluator.core.writes.node_plan import NodeOperations, Removal
from evaluator.core.writes.node_writer import NodeWriter
from evaluator.core.writes.undone import problems as undone_problems
from evaluator.features.node_actions import names, writes
from evaluator.features.node_actions.annotations import NODE_ACTIONS, TaintsAndConditions
from evaluator.features.node_actions.controller import condition_writer, taint_writer
from evaluator.features.node_actions.limit import CLUSTER_LIMIT, NodeLimit, node_limit
from evaluator.features.node_actions.names import own_prefixes
from evaluator.features.node_actions.page import (
    PAGES,
    ActionsFields,
    ShownActions,
    WrittenActionsFields,
)
from evaluator.features.node_actions.planner import (
    ActionsPlanned,
    NodeActionMetrics,
    NodeActionPlanner,
)
from evaluator.features.node_actions.report import ActionEffects, part
from evaluator.features.node_actions.types import ActionSettings
from evaluator.features.node_actions.writes import (
    NodePatch,
    Records,
    compare_taints,
    own_taints,
)
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class NodeActionOptions(FeatureOptions):
    """Actions on nodes. Which ones policies may take, and the limit of all policies together."""

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
        return tuple(name for given in self.condition_types for name in given.split(","))


class Shown:
    """What pages, statuses and Events show of the plan."""

    def __init__(
        self,
        planner: NodeActionPlanner,
        taints: NodeWriter[NodePatch],
        conditions: NodeWriter[ConditionApply],
    ) -> None:
        self._planner = planner
        self._taints = taints
        self._conditions = conditions

    def known(self) -> bool:
        """Return whether there is a plan."""
        return self._planner.ready

    def part(self, decision: Decision) -> PolicyPart:
        """Return the part of a policy's status."""
        actions = self._planner.latest.policies.get(decision.policy.key)
        return part(actions, self._undone(decision))

    def _undone(self, decision: Decision) -> tuple[str, ...]:
        """Return a sentence for each action of a policy that another client undoes."""
        key, plan = decision.policy.key, self._planner.latest
        taint, total = names.taint_key(self._planner.settings.prefix, key), len(plan.nodes)
        taints = (one for one in self._taints.undone() if one.field == taint)
        conditions = (one for one in self._conditions.undone() if plan.owners.get(one.field) == key)
        return (
            *undone_problems("taint", taints, total),
            *undone_problems("condition", conditions, total),
        )

    def page(self) -> PagePart:
        """Return the part of pages."""
        return PagePart(policy=self.policy, written=self.written, written_for=self.written_for)

    def policy(self, decision: Decision) -> ActionsFields:
        """Return the actions of a policy, for its page."""
        actions = decision.policy.actions.part(TaintsAndConditions)
        plan = self._planner.latest.policies.get(decision.policy.key)
        limited = plan is not None and plan.choice is not None
        shown = ShownActions(
            kinds=sorted(decision.policy.actions.kinds),
            effect=actions.effect.value,
            condition=actions.condition,
            limit=plan.limit if plan and limited else None,
            acted=plan.acted if plan and limited else None,
            held_back=plan.held_back if plan and limited else None,
            problems=[*plan.problems, *plan.conflicts, *self._undone(decision)] if plan else [],
        )
        return ActionsFields(actions=shown)

    def written(self, node: Node | None) -> WrittenActionsFields:
        """Return our taints and conditions of a node."""
        return writes.set_on_node(node, self._planner.prefixes)

    def written_for(self, node: Node | None, decision: Decision) -> WrittenActionsFields:
        """Return the taint and condition of a node that one policy caused."""
        return writes.set_by_policy(node, decision.policy, self._planner.prefixes)


def wire(core: Core, options: NodeActionOptions) -> Wired:
    """Plan on every replica; write while this one leads."""
    metrics = NodeActionMetrics(core.metrics.registry)
    settings = ActionSettings(
        taints=options.taints,
        conditions=options.conditions,
        no_execute=options.allow_no_execute,
        prefix=options.taint_prefix,
        condition_types=options.permitted_conditions,
        most=options.max_acted_nodes,
    )
    planner = NodeActionPlanner(
        core.cluster,
        core.loop,
        metrics,
        settings,
        evicts=core.contributions.is_descheduling,
        stops=core.contributions.stops,
        publish=core.signals.publish,
        guard=core.isolation.part("actions on nodes"),
    )
    taints = taint_writer(core.writes, planner, metrics.taint_writes, cause_of=core.causes.cause_of)
    of_policies = condition_writer(
        core.writes, planner, metrics.condition_writes, cause_of=core.causes.cause_of
    )
    shown = Shown(planner, taints, of_policies)
    loops = [planner.run, taints.run, *([of_policies.run] if options.conditions else [])]
    return Wired(
        reacts=(
            *wakes(planner.wake, Decided, StopsChanged),
            on_node(NodeActionsChanged, planner.changed),
            on_node(NodeActionsChanged, taints.wake),
            on_node(NodeActionsChanged, of_policies.wake),
            *wakes(taints.wake, ActionsPlanned),
            *wakes(of_policies.wake, ActionsPlanned),
            *wakes(taints.start_over, LeadershipGained, StopsChanged),
            *wakes(of_policies.start_over, LeadershipGained, StopsChanged),
        ),
        decides=[DecisionParts(records=Records(own_prefixes(options.taint_prefix)).by_record)],
        loops=loops,
        effects=ActionEffects(options.max_acted_nodes),
        policy_part=shown.part,
        part_known=shown.known,
        may_act=planner.may_evict,
        page=shown.page(),
    )


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
    yield from conditions.removals(node, FIELD_MANAGER)
    if patch := compare_taints(node, {}, prefixes):
        keys = sorted({key for key, _ in own_taints(node, prefixes)})
        yield Removal(f"taint {', '.join(keys)}", NodeOperations(name, patch.operations))


FEATURE = Feature(
    name="node_actions",
    options=NodeActionOptions,
    metrics=NodeActionMetrics,
    wire=wire,
    written=Written(
        what="conditions that its field manager owns, and taints with its prefixes",
        options=RemovalOptions,
        removals=removals,
    ),
    pages=PAGES,
    vocabulary=Vocabulary(actions=(NODE_ACTIONS,)),
)
