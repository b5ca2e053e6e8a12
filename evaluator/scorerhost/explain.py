"""What each extender says of a pod, node by node, and what kube-scheduler makes of it, as plain data.

kube-scheduler leaves out a node that any extender's filter refuses. To each of the others it adds, for every extender, the
score (0..10) times the extender's weight times ten: its own plugins give 0..100, times their weights.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from evaluator.model.node_index import Mask, NodeIndex
from evaluator.model.pod_demand import PodView
from evaluator.policy.decide import Decision
from evaluator.policy.types import StrategyName
from evaluator.scoring.options import POLICIES
from evaluator.scoring.plugin import BEST, Scorer, ScorerResult
from evaluator.scoring.snapshot import ClusterSnapshot, NodeRejection

_PLUGIN_BEST = 100
"""kube-scheduler's MaxNodeScore."""
SCALE = _PLUGIN_BEST // BEST
"""What one point of an extender counts, at a weight of 1."""
_BLOCK = 20
"""Nodes that are looked up together: a fraction of a millisecond for each scorer."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one extender says of a pod, and how much that counts."""

    name: str
    """Of the scorer; POLICIES for the policy that the pod follows."""
    filter: str
    """The predicate that answers the extender's filterVerb; empty where it has none."""
    priority: str
    """The priority that answers the extender's prioritizeVerb; empty where it has none."""
    weight: int
    """Of the extender, in the KubeSchedulerConfiguration."""
    nodes: NodeIndex
    """The nodes that it was asked about, which may have changed since another was asked."""
    result: ScorerResult


class Explanation(NamedTuple):
    """In two parts: `head` for the pod, `nodes` for one node after the other, worked out as they are asked for."""

    head: dict[str, Any]
    nodes: Iterator[tuple[str, dict[str, Any]]]


def of_scorer(
    name: str, scorer: Scorer, view: ClusterSnapshot, result: ScorerResult, *, weight: int
) -> Opinion:
    """What a scorer said of the nodes of a view."""
    first, best = (*scorer.predicates, ""), (*scorer.priorities, "")
    return Opinion(name, first[0], best[0], weight, view.nodes, result)


def of_policy(
    decision: Decision, nodes: NodeIndex, others: Iterable[Opinion], *, weight: int
) -> Opinion:
    """What a policy says of nodes. It ranks those that nobody refuses, as only these are asked about."""
    by_reason: dict[str, list[str]] = {}
    for node, reason in decision.dontschedule.items():
        by_reason.setdefault(reason, []).append(node)
    refusals = [NodeRejection(_where(nodes, names), reason) for reason, names in by_reason.items()]
    dontschedule, ranked = StrategyName.DONTSCHEDULE.value, StrategyName.SCHEDULEONMETRIC.value
    said = ScorerResult({dontschedule: refusals})
    if decision.ranking is not None:
        alone = Opinion(POLICIES, dontschedule, "", weight, nodes, said)
        left = nodes.at(_passing(nodes, (*others, alone)))
        scores = np.zeros(len(nodes), dtype=np.int64)
        for name, score in decision.ranking.scores(left):
            scores[nodes.position[name]] = score
        said = replace(said, scores={ranked: scores})
    return Opinion(POLICIES, dontschedule, ranked, weight, nodes, said)


def explain(pod: PodView, opinions: Sequence[Opinion]) -> Explanation:
    """A pod as all see it who are asked about it; the nodes are those of the first."""
    head = {
        "pod": pod.name,
        "kind": pod.kind,
        "requests": _amounts(pod.requests),
        "extenders": {
            one.name: {"filter": one.filter, "prioritize": one.priority, "weight": one.weight}
            for one in opinions
        },
        "total": f"the sum of score x weight x {SCALE} over the extenders: what kube-scheduler adds to the scores of its "
        "own plugins; null where a filter refuses the node",
    }
    return Explanation(head, _nodes(opinions))


def _where(nodes: NodeIndex, names: Sequence[str]) -> Mask:
    """The mask of those of some nodes that have these names."""
    places = nodes.find(names)
    mask = np.zeros(len(nodes), dtype=bool)
    mask[places[places >= 0]] = True
    return mask


def _passing(nodes: NodeIndex, opinions: Iterable[Opinion]) -> Mask:
    """The nodes that no filter refuses."""
    left = nodes.all
    for one in opinions:
        for refusal in one.result.refusals.get(one.filter, ()):
            left = left & ~_where(nodes, one.nodes.at(refusal.where))
    return left


def _amounts(amounts: Mapping[Any, float]) -> dict[str, Any]:
    return {str(resource): _number(amount) for resource, amount in amounts.items()}


def _nodes(opinions: Sequence[Opinion]) -> Iterator[tuple[str, dict[str, Any]]]:
    names = opinions[0].nodes if opinions else NodeIndex()
    for start in range(0, len(names), _BLOCK):
        block = names[start : start + _BLOCK]
        told = [_of_block(one, block) for one in opinions]
        for name, *said in zip(block, *told, strict=True):
            yield name, _of_node(opinions, said)


def _of_node(opinions: Sequence[Opinion], said: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """What all say of one node, and the sum. None is from who was asked when the node was not there."""
    found = {one.name: told for one, told in zip(opinions, said, strict=True) if told is not None}
    refused = [
        one.name
        for one in opinions
        if one.name in found and one.filter in found[one.name]["refused"]
    ]
    total = sum(told["adds"] for told in found.values())
    return {"extenders": found, "refusedBy": refused, "total": None if refused else total}


def _of_block(one: Opinion, block: Sequence[str]) -> list[dict[str, Any] | None]:
    """What one says of some nodes."""
    if not one.nodes:
        return [None for _ in block]
    places = one.nodes.find(block)
    facts = {name: values[places].tolist() for name, values in one.result.facts.items()}
    scores = {name: values[places].tolist() for name, values in one.result.scores.items()}
    refused = _refused(one.result, places.tolist())
    missing = one.result.missing
    lacking = [False] * len(block) if missing is None else missing[places].tolist()
    return [
        {
            "facts": {name: _number(values[row]) for name, values in facts.items()},
            "refused": refused[row],
            "scores": {name: values[row] for name, values in scores.items()},
            "missing": lacking[row],
            "adds": scores[one.priority][row] * one.weight * SCALE if one.priority in scores else 0,
        }
        if place >= 0
        else None
        for row, place in enumerate(places.tolist())
    ]


def _refused(result: ScorerResult, places: Sequence[int]) -> list[dict[str, str]]:
    """For each node the predicates that refuse it, with the first reason."""
    found: list[dict[str, str]] = [{} for _ in places]
    for predicate, refusals in result.refusals.items():
        for refusal in refusals:
            for told, hit in zip(found, refusal.where[list(places)].tolist(), strict=True):
                if hit:
                    told.setdefault(predicate, refusal.reason)
    return found


def _number(value: float) -> float | str | None:
    """JSON has no NaN, which here is "not known", and no infinities, which are told by name."""
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
