"""The pages of gangs, and what gangs add to pages of pods."""

from msgspec import UNSET

from evaluator.core.page_fields import Entries, EvaluatorFields, Fields, Maybe, PodFields
from evaluator.core.pages.window import ShownWindow


class GangsFields(EvaluatorFields):
    """Whether gangs are on."""

    gangs: bool


class GangOfPodFields(PodFields, kw_only=True):
    """The gang of a pod that has our gate."""

    turned_away_by_plimsoll: Maybe[bool] = UNSET
    gang: str
    gang_state: Maybe[str | None] = UNSET
    gang_message: Maybe[str] = UNSET
    """Why it waits."""


class QueuedGang(Fields):
    """A waiting gang."""

    gang: str
    explain: str
    state: str | None
    message: str | None
    group_priority: int
    held: int
    """Gated pods."""


class GangQueue(Fields, kw_only=True):
    """/gangs.json and /explain?gang=."""

    waiting_for: list[str]
    window: Maybe[ShownWindow] = UNSET
    gangs: Entries[list[QueuedGang]] = UNSET


class GangShortage(Fields):
    """How many pods fit, of how many wanted."""

    fit: int
    wanted: int
    nodes: int
    short: str
    """The scarcest resource; `nodes` if none is eligible."""


class GangTurn(Fields):
    """The time in which resources are kept for a gang."""

    began: str
    ends: str | None
    rests_until: str | None
    timeouts: int


class GangQuorum(Fields):
    """Pods of a gang by their state, and how many there must be."""

    min_available: int
    existing: int
    complete: bool
    counts_all: bool
    held: int
    held_by_others: int
    without_node: int
    with_node: int
    succeeded: int


class GangRank(Fields):
    """The place of a gang in the queue."""

    group_priority: int
    qos_class: str
    created: str | None
    place: int | None
    of: int
    before: list[str]
    """Gangs of its namespace that go first."""
    before_elsewhere: int


class ShapeFit(Fields):
    """Pods of equal requests, and how many would fit if they were alone."""

    pods: int
    requests: dict[str, int]
    """In milli-CPU, bytes or units."""
    policy: str | None
    nodes: int
    fit_now: int
    fit_were_nodes_empty: int


class FittingPods(Fields):
    """How many pods of a shape fit on a node."""

    fit_now: int
    fit_were_it_empty: int
    shut_out_by: Maybe[str] = UNSET


class GangNode(Fields):
    """A node, and how many pods of each shape fit."""

    free: dict[str, float | None]
    pods: list[FittingPods]


class GangMember(Fields):
    """A pod of a gang, and what it waits for."""

    state: str
    node: str | None
    gates: list[str]
    admitted: str | None
    created: str | None
    owner: str | None
    min_available: int
    group_priority: int
    requests: dict[str, int]
    problems: list[str]


class GangState(Fields, kw_only=True):
    """The decision about a gang."""

    state: str | None
    message: str
    waiting_seconds: Maybe[float] = UNSET
    shortage: Maybe[GangShortage] = UNSET
    admitted: Maybe[list[str]] = UNSET
    turn: Maybe[GangTurn] = UNSET


class GangPage(GangState, kw_only=True):
    """/gangs/<namespace>/<podGroup>.json and /explain?gang=<namespace>/<podGroup>."""

    waiting_for: list[str]
    gang: str
    alone: bool
    """Whether it is a pod without a gang."""
    quorum: GangQuorum
    rank: GangRank
    problems: list[str]
    obstacles: list[str]
    needs_room: bool
    fit: list[ShapeFit]
    window: Maybe[ShownWindow] = UNSET
    members_more: Maybe[int] = UNSET
    members: Entries[dict[str, GangMember]] = UNSET
    nodes: Entries[dict[str, GangNode]] = UNSET


PAGES: tuple[type[Fields], ...] = (GangQueue, GangPage, GangsFields, GangOfPodFields)
