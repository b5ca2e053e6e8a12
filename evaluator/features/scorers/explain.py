"""Builds the data of /explain for a pod: each extender's verdict per node, and kube-scheduler's total.

kube-scheduler drops a node that any extender's filter refuses. To the others it adds, for every extender, score
(0..10) times the extender's weight times ten; its own plugins give 0..100, times their weights.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import Mask, NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.strategies import StrategyName
from evaluator.features.scorers.page import (
    ByName,
    Extender,
    ExtenderOpinion,
    JudgedNode,
    NodeUsage,
    ScoredNode,
    ScoredPodFields,
)
from evaluator.features.scorers.plugin import (
    BEST,
    POLICIES,
    ClusterSnapshot,
    NodeRejection,
    Scorer,
    ScorerResult,
)
from plimsoll.quantity import json_number

_PLUGIN_BEST = 100
"""kube-scheduler's MaxNodeScore."""
SCALE = _PLUGIN_BEST // BEST
"""What one extender point adds at weight 1."""
_BLOCK = 20
"""Nodes processed together: a fraction of a millisecond per scorer."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """The verdict of one extender on a pod, and its weight."""

    name: str
    """The scorer's name; POLICIES for the pod's policy."""
    filter: str
    """The predicate behind the extender's filterVerb; empty if it has none."""
    priority: str
    """The priority behind the extender's prioritizeVerb; empty if it has none."""
    weight: int
    """The extender's weight in the KubeSchedulerConfiguration."""
    nodes: NodeIndex
    """The nodes of its result; those of other extenders may differ if nodes changed in between."""
    result: ScorerResult


class Explanation(NamedTuple):
    """`head` for the pod; `nodes` for the nodes, evaluated lazily."""

    head: ScoredPodFields
    nodes: Iterator[tuple[str, JudgedNode]]


def node_facts(view: ClusterSnapshot, node: str) -> ScoredNode:
    """Return what scorers know of a node, by resource and metric: milli-CPU, bytes or units; null if unknown."""
    position = view.nodes.position.get(node)
    if position is None:
        return ScoredNode()
    congestion = view.congestion
    return ScoredNode(
        allocatable=_row(view.allocatable, position),
        requested=_row(view.requested, position),
        recently_bound=_row(view.recently_bound, position),
        usage={
            str(resource): NodeUsage(
                free=json_number(float(usage.free[position])),
                deviation=json_number(float(usage.deviation[position])),
                forecast=json_number(float(usage.forecast[position])),
            )
            for resource, usage in view.usage.items()
        },
        congestion=None if congestion is None else json_number(float(congestion[position])),
        readings=_row(view.readings, position),
        annotations=_row(view.annotations, position),
    )


def _row(columns: Mapping[Any, Floats], position: int) -> ByName:
    return {str(name): json_number(float(values[position])) for name, values in columns.items()}


def of_scorer(
    name: str, scorer: Scorer, view: ClusterSnapshot, result: ScorerResult, *, weight: int
) -> Opinion:
    """Return the opinion of a scorer on the nodes of a snapshot."""
    first, best = (*scorer.predicates, ""), (*scorer.priorities, "")
    return Opinion(name, first[0], best[0], weight, view.nodes, result)


def of_policy(
    decision: Decision, nodes: NodeIndex, others: Iterable[Opinion], *, weight: int
) -> Opinion:
    """Return the opinion of a policy. It ranks only nodes that no extender refuses, as kube-scheduler requests it."""
    by_reason: dict[str, list[str]] = {}
    for node, reason in decision.dontschedule.items():
        by_reason.setdefault(reason, []).append(node)
    refusals = [NodeRejection(_where(nodes, names), reason) for reason, names in by_reason.items()]
    dontschedule, ranked = StrategyName.DONTSCHEDULE.value, StrategyName.SCHEDULEONMETRIC.value
    result = ScorerResult({dontschedule: refusals})
    if decision.ranking is not None:
        policy_filter = Opinion(POLICIES, dontschedule, "", weight, nodes, result)
        left = nodes.names_at(_passing(nodes, (*others, policy_filter)))
        scores = np.zeros(len(nodes), dtype=np.int64)
        for name, score in decision.ranking.scores(left):
            scores[nodes.position[name]] = score
        result = replace(result, scores={ranked: scores})
    return Opinion(POLICIES, dontschedule, ranked, weight, nodes, result)


def explain(pod: PodView, opinions: Sequence[Opinion]) -> Explanation:
    """Return the explanation of a pod by all extenders; the nodes are those of the first."""
    head = ScoredPodFields(
        kind=pod.kind,
        requests={str(resource): json_number(amount) for resource, amount in pod.requests.items()},
        extenders={
            opinion.name: Extender(opinion.filter, opinion.priority, opinion.weight)
            for opinion in opinions
        },
        total=f"the sum of score x weight x {SCALE} over the extenders: what kube-scheduler adds to the scores of its "
        "own plugins; null where a filter refuses the node",
    )
    return Explanation(head, _nodes(opinions))


def _where(nodes: NodeIndex, names: Sequence[str]) -> Mask:
    """Return the mask of the nodes with these names."""
    positions = nodes.find(names)
    mask = np.zeros(len(nodes), dtype=bool)
    mask[positions[positions >= 0]] = True
    return mask


def _passing(nodes: NodeIndex, opinions: Iterable[Opinion]) -> Mask:
    """Return the nodes that no filter refuses."""
    left = nodes.all
    for opinion in opinions:
        for refusal in opinion.result.refusals.get(opinion.filter, ()):
            left = left & ~_where(nodes, opinion.nodes.names_at(refusal.where))
    return left


def refusal_reasons(nodes: Iterable[JudgedNode]) -> set[str]:
    """Return the texts that extenders refuse nodes with."""
    return {
        reason
        for node in nodes
        for by in node.refused_by or ()
        for reason in node.extenders[by].refused.values()
    }


def _nodes(opinions: Sequence[Opinion]) -> Iterator[tuple[str, JudgedNode]]:
    names = opinions[0].nodes if opinions else NodeIndex()
    for start in range(0, len(names), _BLOCK):
        block = names[start : start + _BLOCK]
        columns = [_of_block(opinion, block) for opinion in opinions]
        for name, *entries in zip(block, *columns, strict=True):
            yield name, _of_node(opinions, entries)


def _of_node(opinions: Sequence[Opinion], entries: Sequence[ExtenderOpinion | None]) -> JudgedNode:
    """Return all opinions on one node, and their sum. None marks an extender without this node."""
    by_extender = {
        opinion.name: entry
        for opinion, entry in zip(opinions, entries, strict=True)
        if entry is not None
    }
    refused = [
        opinion.name
        for opinion in opinions
        if opinion.name in by_extender and opinion.filter in by_extender[opinion.name].refused
    ]
    total = sum(entry.adds for entry in by_extender.values())
    return JudgedNode(extenders=by_extender, refused_by=refused, total=None if refused else total)


def _of_block(opinion: Opinion, block: Sequence[str]) -> list[ExtenderOpinion | None]:
    """Return one opinion on a block of nodes."""
    if not opinion.nodes:
        return [None for _ in block]
    positions = opinion.nodes.find(block)
    facts = {name: values[positions].tolist() for name, values in opinion.result.facts.items()}
    scores = {name: values[positions].tolist() for name, values in opinion.result.scores.items()}
    refused = _refused(opinion.result, positions.tolist())
    missing = opinion.result.missing
    missing_rows = [False] * len(block) if missing is None else missing[positions].tolist()
    return [
        ExtenderOpinion(
            facts={name: json_number(values[row]) for name, values in facts.items()},
            refused=refused[row],
            scores={name: values[row] for name, values in scores.items()},
            missing=missing_rows[row],
            adds=scores[opinion.priority][row] * opinion.weight * SCALE
            if opinion.priority in scores
            else 0,
        )
        if position >= 0
        else None
        for row, position in enumerate(positions.tolist())
    ]


def _refused(result: ScorerResult, positions: Sequence[int]) -> list[dict[str, str]]:
    """Return, per node, the predicates that refuse it with their first reason."""
    by_position: list[dict[str, str]] = [{} for _ in positions]
    for predicate, refusals in result.refusals.items():
        for refusal in refusals:
            for reasons, hit in zip(
                by_position, refusal.where[list(positions)].tolist(), strict=True
            ):
                if hit:
                    reasons.setdefault(predicate, refusal.reason)
    return by_position
