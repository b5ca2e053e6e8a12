"""What scorers add to pages of nodes and pods."""

from msgspec import UNSET

from evaluator.core.page_fields import (
    EvaluatorFields,
    Fields,
    Maybe,
    NodeFields,
    Number,
    PodFields,
    PodOpinion,
)

ByName = dict[str, Number]


class ScorerNameFields(EvaluatorFields):
    """The enabled scorers."""

    scorers: list[str]


class NodeUsage(Fields):
    """The use of a resource."""

    free: Number
    deviation: Number
    forecast: Number


class ScoredNode(Fields, kw_only=True):
    """What scorers know of a node, by resource and metric: milli-CPU, bytes or units. Nothing while they are not ready."""

    allocatable: Maybe[ByName] = UNSET
    requested: Maybe[ByName] = UNSET
    recently_bound: Maybe[ByName] = UNSET
    usage: Maybe[dict[str, NodeUsage]] = UNSET
    congestion: Maybe[Number] = UNSET
    readings: Maybe[ByName] = UNSET
    annotations: Maybe[ByName] = UNSET


class ScoredNodeFields(NodeFields):
    """Of a node."""

    scorers: ScoredNode


class Extender(Fields):
    """An extender that judges the nodes for a pod."""

    filter: str
    prioritize: str
    weight: int


class ScoredPodFields(PodFields):
    """Of a pod that scorers know."""

    kind: str
    requests: ByName
    extenders: dict[str, Extender]
    total: str
    """What `total` of a node is."""


class ExtenderOpinion(Fields):
    """The verdict of an extender on a node for a pod."""

    facts: ByName
    refused: dict[str, str]
    """The predicates that refuse it, with their first reason."""
    scores: dict[str, int]
    missing: bool
    adds: int
    """What it adds to kube-scheduler's score."""


class JudgedNode(PodOpinion, kw_only=True):
    """The verdicts of all extenders on a node for a pod."""

    extenders: dict[str, ExtenderOpinion]
    total: int | None
    """Null where a filter refuses the node."""


PAGES: tuple[type[Fields], ...] = (
    *(ScorerNameFields, ScoredNodeFields, ScoredPodFields, JudgedNode),
)
