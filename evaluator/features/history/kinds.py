"""The pages of the history, and what it adds to pages about the present."""

from typing import ClassVar

from msgspec import UNSET

from evaluator.core.page_fields import (
    Entries,
    Fields,
    Maybe,
    NodeFields,
    Number,
    OverviewFields,
    PodFields,
    PolicyFields,
)
from evaluator.core.pages.window import ShownWindow


class HistoryRecord(Fields, kw_only=True):
    """A record: docs/history.md."""

    number: int
    at: str
    kind: str
    policy: Maybe[str] = UNSET
    node: Maybe[str] = UNSET
    pod: Maybe[str] = UNSET
    mode: Maybe[str] = UNSET
    strategy: Maybe[str] = UNSET
    was: Maybe[str] = UNSET
    why: Maybe[str] = UNSET
    rule: Maybe[str] = UNSET
    metric: Maybe[str] = UNSET
    limit: Maybe[float | None] = UNSET
    reading: Maybe[Number] = UNSET
    cause: Maybe[str] = UNSET
    text: Maybe[str] = UNSET
    restored: Maybe[bool] = UNSET


class TimelineRow(Fields):
    """A node or policy."""

    name: str
    transitions: int
    now: str
    violated_share: float
    """Share of the interval in violation, 0 to 1."""
    runs: list[tuple[int, int, str]]
    """First column, columns, phase; clear parts are left out."""


class TimelinePart(Fields):
    """A part of a timeline's interval."""

    since: str
    until: str


class ShownTimeline(Fields):
    """The rows that changed most, over an interval."""

    since: str
    until: str
    parts: list[TimelinePart]
    columns: int
    rows: list[TimelineRow]
    rows_more: int


class SharedActionsFields(Fields):
    """What is known of the actions of all replicas."""

    since: str
    """Since when they are complete."""
    left_out: int
    """Older ones that were left out for want of room."""
    problem: str | None
    """Why some may be absent, or unknown to other replicas."""
    problem_since: str | None


class HistoryPage(Fields, kw_only=True):
    """/history.json, and that of a namespace or policy."""

    recorder: str
    newest: int
    complete_since: str
    """Since when transitions and pods are complete, as this replica saw them."""
    actions: SharedActionsFields
    filters: dict[str, str]
    kinds: list[str]
    window: ShownWindow
    policy: Maybe[str] = UNSET
    timeline: Maybe[ShownTimeline] = UNSET
    records: Entries[list[HistoryRecord]] = UNSET


class Past(Fields, kw_only=True):
    """What was before, on a page about the present."""

    timeline: ShownTimeline
    by: str
    """What a row is: `node` or `policy`."""
    records: list[HistoryRecord]
    """The newest ones."""
    complete_since: str
    actions: SharedActionsFields
    interval: dict[str, str]


class NodePast(Past, kw_only=True):
    """What was before on a node."""

    series: dict[str, list[tuple[float, float, float, float]]]
    """By metric: time, lowest, mean and highest reading of each minute."""
    series_left_out: int


class PastFields(OverviewFields):
    """Of the overview."""

    past: Past


class PolicyPastFields(PolicyFields):
    """Of a policy, on pages for a browser."""

    past: Past


class NodePastFields(NodeFields):
    """Of a node, on pages for a browser."""

    past: NodePast


class DecisionFields(Fields):
    """Added to the last decision for a pod, once it is known."""


class RefusedNode(Fields):
    """A node that was refused."""

    node: str
    reason: str
    readings: dict[str, Number]


class PodDecision(Fields):
    """The last answer to kube-scheduler about a pod, with the readings of that moment."""

    extended_by: ClassVar[type[Fields]] = DecisionFields

    at: str
    policy: str
    generation: int
    mode: str
    candidates: int
    refused: int
    refused_nodes: list[RefusedNode]


class RankedNode(Fields):
    """A node that was ranked."""

    node: str
    score: int
    reading: Number


class RankedFields(DecisionFields):
    """The nodes that were ranked highest."""

    ranked_by: str
    ranked: list[RankedNode]


class ChosenFields(DecisionFields):
    """The node that the pod was bound to."""

    chosen: str
    chosen_at: str
    readings: dict[str, Number]


class PodPast(Fields):
    """What was before for a pod."""

    decision: PodDecision | None


class PodPastFields(PodFields):
    """Of a pod."""

    past: PodPast


class Successor(Fields):
    """A pod of the same controller that was created since."""

    pod: str
    node: str | None
    """Null: it waits."""


class Eviction(Fields):
    """How a pod that is gone was evicted."""

    at: str
    policy: str
    node: str
    why: str
    """The violated rules with their readings."""
    successors: list[Successor]


class GonePodFields(PodFields):
    """Of a pod that is gone."""

    evicted: Eviction


PAGES: tuple[type[Fields], ...] = (
    *(HistoryPage, PastFields, PolicyPastFields, NodePastFields, PodPastFields, GonePodFields),
    *(PodDecision, RankedFields, ChosenFields),
)
