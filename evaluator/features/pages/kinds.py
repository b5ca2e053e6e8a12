"""The pages as JSON, and the objects on them: each field is defined here, or by the feature that adds it."""

from typing import ClassVar

from msgspec import UNSET, UnsetType

from evaluator.core.page_fields import (
    EnforcementFields,
    Entries,
    EvaluatorFields,
    Fields,
    ListedPolicyFields,
    Maybe,
    NodeFields,
    Number,
    OverviewFields,
    PodFields,
    PodOpinion,
    PolicyFields,
    WrittenFields,
    with_fields,
)
from evaluator.core.pages.window import ShownWindow
from evaluator.core.placement.explain import PlacedPods
from evaluator.core.policy.strategies import COMPLIANCE

States = dict[str, int]
"""Nodes by state, the worst first; all states are named."""
_WITH_REASONS = with_fields([(name.value, str | None) for name in COMPLIANCE])


class BasePage(Fields, kw_only=True):
    """What all pages say of the replica."""

    waiting_for: list[str]
    """What the replica waits for until it is ready."""
    notices: Maybe[list[str]] = UNSET
    """What is stopped, by whom, when and why."""


class Strip(Fields):
    """The states of nodes, in the order of their names."""

    columns: int
    """Each stands for one node, or for several adjacent ones of which it shows the worst."""
    runs: list[tuple[int, int, str]]
    """First column, columns, state; clear nodes are left out."""


class PeerGroup(Fields):
    """A group of nodes that a rule compares."""

    metric: str
    """The metric whose readings are compared."""
    group: str
    nodes: int
    """Nodes with a reading."""
    median: Number
    """Null, as the scale, if there are too few readings."""
    scale: Number
    accused_at_most: int


class ComparedReading(PeerGroup, kw_only=True):
    """The group that a node is compared with."""

    reading: Number
    """That of the node."""


class Reading(Fields, kw_only=True):
    """The reading of a metric on a node."""

    value: float | str | None
    """Null without a single value; infinities and NaN are text."""
    age_seconds: float | None
    state: str
    """`fresh`, or why the reading does not count."""
    source: Maybe[str] = UNSET
    """Missing if there is one source."""
    peers: Maybe[ComparedReading] = UNSET
    cause: Maybe[str] = UNSET
    """The device behind it."""


class Timer(Fields):
    """A running `for` or `clearAfter`."""

    strategy: str
    rule: str
    timer: str
    """`for` or `clearAfter`."""
    left_seconds: float


class FailingRule(Fields):
    """A recording rule that fails on a node."""

    file: str
    group: str
    rule: str
    reason: str
    message: str
    failing_seconds: float


class FailingRules(Fields):
    """The recording rules that fail on a node."""

    age_seconds: float | None
    """Of the agent's last report; null if that is stale."""
    rules: list[FailingRule]
    more: int


class ListedPod(Fields, kw_only=True):
    """A pod in a list."""

    pod: str
    explain: Maybe[str] = UNSET
    policy: str
    phase: str
    node: str | None
    scheduler_reason: str | None
    """Of kube-scheduler's last attempt."""
    scheduler_message: str | None
    requests_decide: Maybe[str] = UNSET
    """That requests leave no room, as a sentence."""


class AgentsPort(Fields):
    """Restarts of the agents' port."""

    restarts: int
    last_restart_seconds: float | None
    reason: str | None


@with_fields(
    field
    for name in COMPLIANCE
    for field in (
        (name.value, list[str]),
        (f"{name.value}_more", int | UnsetType, UNSET),
        (f"{name.value}_held_back", int | UnsetType, UNSET),
    )
)
class ListedPolicy(Fields, kw_only=True):
    """A policy in a list, with some of the nodes that violate each strategy, and how many more there are."""

    extended_by: ClassVar[type[Fields]] = ListedPolicyFields

    policy: str
    explain: str
    enforcement: str
    """`enforce` or `observe`."""
    problems: list[str]
    warnings: list[str]


class PolicyList(Fields, kw_only=True):
    """/explain and /explain/<namespace>."""

    namespace: Maybe[str] = UNSET
    waiting_for: list[str]
    notices: Maybe[list[str]] = UNSET
    """What is stopped, by whom, when and why."""
    node_count: int
    agents_port: AgentsPort | None
    policies_more: Maybe[int] = UNSET
    see: Maybe[dict[str, str]] = UNSET
    """Addresses of other pages."""
    policies: Entries[list[ListedPolicy]] = UNSET
    pods: Maybe[list[ListedPod]] = UNSET
    """Of one namespace."""


class StrategyCounts(Fields):
    """Nodes by what a strategy makes of them."""

    violating: int
    pending: int
    clearing: int
    missing: int
    """Violating by a missing reading."""


class OverviewPolicy(ListedPolicy, kw_only=True):
    """A policy on the overview."""

    strategies: dict[str, StrategyCounts]
    states: States
    strip: Strip
    oldest_reading_seconds: float | None


class Evaluator(Fields):
    """This replica."""

    extended_by: ClassVar[type[Fields]] = EvaluatorFields

    version: str
    leads: bool
    leader: str
    """Empty if none is known."""
    agents: int | None
    """Connected ones; null if they are no source."""
    agents_port: AgentsPort | None
    sources: list[str]


class Watch(Fields):
    """A watch of the API server."""

    kind: str
    silent_seconds: float | None
    """Null if it never received anything."""
    stale: bool


class Overview(BasePage, kw_only=True):
    """/index.json."""

    extended_by: ClassVar[type[Fields]] = OverviewFields

    node_count: int
    attention: list[str]
    """What needs attention, each as a phrase."""
    evaluator: Evaluator
    api_server: list[Watch]
    window: ShownWindow
    policies: Entries[list[OverviewPolicy]] = UNSET


class Enforcement(Fields, kw_only=True):
    """The mode of a policy, and what enforcing it would change."""

    extended_by: ClassVar[type[Fields]] = EnforcementFields

    mode: str
    """`enforce` or `observe`."""
    by: Maybe[str] = UNSET
    would_change: Maybe[dict[str, list[str] | int]] = UNSET
    """Names of nodes or pods, and how many more there are, by the effect."""


class ShownGroup(PeerGroup, kw_only=True):
    """A group of nodes that a rule compares, as a strip from low to high."""

    states: States
    strip: Strip


class RulePeers(Fields, kw_only=True):
    """The groups in which a rule compares nodes."""

    by: str
    least: int
    """Readings that a group needs."""
    groups: list[ShownGroup]
    groups_more: Maybe[int] = UNSET
    without_peers: int
    """Nodes in smaller groups."""


class PolicyRule(Fields, kw_only=True):
    """A rule of a policy, with nodes by what it makes of them; `…More` counts those that are not named."""

    rule: str
    words: str
    broken: list[str]
    """Nodes on which the rule holds."""
    broken_more: Maybe[int] = UNSET
    labels: Maybe[dict[str, str]] = UNSET
    missing: Maybe[list[str]] = UNSET
    missing_more: Maybe[int] = UNSET
    held_back: Maybe[list[str]] = UNSET
    held_back_more: Maybe[int] = UNSET
    pending: Maybe[dict[str, float]] = UNSET
    """Seconds until `for` ends, by node."""
    pending_more: Maybe[int] = UNSET
    clearing: Maybe[dict[str, float]] = UNSET
    """Seconds until `clearAfter` ends, by node."""
    clearing_more: Maybe[int] = UNSET
    peers: Maybe[RulePeers] = UNSET


class PolicyStrategy(Fields):
    """A strategy of a policy."""

    logical_operator: str
    words: str
    rules: list[PolicyRule]


class RankedNodes(Fields):
    """The ranking of nodes by a policy."""

    metric: str
    words: str
    order: str
    scores: dict[str, int]


@_WITH_REASONS
class PolicyNode(Fields, kw_only=True):
    """A node, and what one policy makes of it: for each strategy why the node violates it, null if it does not."""

    readings: dict[str, Reading]
    labels: dict[str, str]


class PolicyHead(BasePage, kw_only=True):
    """A policy, with all or some of the nodes."""

    policy: str
    generation: int
    enforcement: Enforcement
    problems: list[str]
    warnings: list[str]
    awaited: list[str]
    """Nodes that have not reported some metric yet."""
    awaited_more: Maybe[int] = UNSET
    strategies: dict[str, PolicyStrategy]
    scheduleonmetric: Maybe[RankedNodes] = UNSET


class ExplainedPolicy(PolicyHead, kw_only=True):
    """/explain/<namespace>/<policy>."""

    extended_by: ClassVar[type[Fields]] = PolicyFields

    nodes_more: Maybe[int] = UNSET
    nodes: Entries[dict[str, PolicyNode]] = UNSET


class Written(Fields):
    """What the evaluator wrote to a node."""

    extended_by: ClassVar[type[Fields]] = WrittenFields

    labels: dict[str, str]


class DifferingNode(PolicyNode):
    """A node on the page of a policy."""

    state: str
    violated_seconds: dict[str, float]
    """For how long it has violated each strategy that it violates."""
    timers: list[Timer]
    written: Written


class StatusCondition(Fields):
    """A condition of a policy's status in the cluster; users can edit it."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str


class PolicyStatus(Fields):
    """A policy's status in the cluster."""

    compliance: str
    message: str
    conditions: list[StatusCondition]


class PolicyPage(PolicyHead, kw_only=True):
    """/policies/<namespace>/<policy>.json."""

    extended_by: ClassVar[type[Fields]] = PolicyFields

    states: States
    strip: Strip
    window: ShownWindow
    status: PolicyStatus
    pods: list[ListedPod]
    pods_more: Maybe[int] = UNSET
    nodes: Entries[dict[str, DifferingNode]] = UNSET


class ListedNode(Fields, kw_only=True):
    """A node in a list: the policies that it violates, by which strategies, and the labels that it should have."""

    violates: dict[str, list[str]]
    causes: Maybe[list[str]] = UNSET
    """Devices."""
    causes_more: Maybe[int] = UNSET
    labels: dict[str, str]
    violates_more: Maybe[int] = UNSET
    labels_more: Maybe[int] = UNSET


class NodeList(BasePage, kw_only=True):
    """/explain?nodes."""

    nodes: Entries[dict[str, ListedNode]] = UNSET


class NodeOfPage(ListedNode):
    """A node on the page of nodes."""

    state: str
    """The worst over all policies."""
    ready: str | None
    """The status of its condition; null if the node is not known."""
    cordoned: bool | None


class NodesPage(BasePage, kw_only=True):
    """/nodes.json."""

    states: States
    window: ShownWindow
    nodes: Entries[dict[str, NodeOfPage]] = UNSET


class RuleOnNode(Fields):
    """A rule of a policy on one node."""

    strategy: str
    rule: str
    metric: str
    target_value: float | None
    """Null, as `violated`, for a rule that ranks."""
    violated: bool | None


@_WITH_REASONS
class NodePolicy(Fields, kw_only=True):
    """What one policy makes of a node: for each strategy why the node violates it, null if it does not."""

    state: str
    mode: str
    """`enforce` or `observe`."""
    violated_seconds: dict[str, float]
    timers: list[Timer]
    awaited: bool
    """Whether the node has not reported some metric yet."""
    labels: dict[str, str]
    rules: list[RuleOnNode]
    readings: dict[str, Reading]


class NodePage(BasePage, kw_only=True):
    """/nodes/<node>.json and /explain?node=<node>."""

    extended_by: ClassVar[type[Fields]] = NodeFields

    node: str
    ready: str | None
    cordoned: bool | None
    labels: dict[str, str]
    """That enforced policies set."""
    sources: list[str]
    written: Written
    failing_rules: FailingRules
    policies: Entries[dict[str, NodePolicy]] = UNSET


class PodPolicy(Fields, kw_only=True):
    """The policy that a pod names."""

    name: str
    applies: bool
    mode: Maybe[str] = UNSET
    problems: Maybe[list[str]] = UNSET
    warnings: Maybe[list[str]] = UNSET
    problem: Maybe[str] = UNSET
    """Why it does not apply."""


class PodRule(Reading):
    """A rule of a pod's policy on one node, and the reading."""

    rule: str
    target: str
    target_value: float
    violated: bool


class PodNode(Fields, kw_only=True):
    """What keeps a pod off a node, if anything. All fields may be missing: scorers may know the pod alone."""

    extended_by: ClassVar[type[Fields]] = PodOpinion

    obstacles: Maybe[list[str]] = UNSET
    """Why kube-scheduler itself does not bind the pod there."""
    refused: Maybe[str | None] = UNSET
    would_refuse: Maybe[str] = UNSET
    """By an observed policy."""
    awaited: Maybe[bool] = UNSET
    rules: Maybe[list[PodRule]] = UNSET
    placed: Maybe[list[PlacedPods]] = UNSET
    score: Maybe[int] = UNSET


class NodeCounts(Fields):
    """Nodes by what keeps a pod off them."""

    total: int
    not_feasible: int
    refused_by_policy: int
    awaiting_readings: int
    refused_by_scorers: int
    left: int


class PodPage(Fields, kw_only=True):
    """/pods/<namespace>/<pod>.json and /explain?pod=. Most fields are missing if only scorers know the pod."""

    extended_by: ClassVar[type[Fields]] = PodFields

    waiting_for: Maybe[list[str]] = UNSET
    notices: Maybe[list[str]] = UNSET
    """What is stopped, by whom, when and why."""
    pod: str
    summary: Maybe[str] = UNSET
    turned_away_by_plimsoll: Maybe[bool | None] = UNSET
    """Null: unknown."""
    node: Maybe[str | None] = UNSET
    nominated_node: Maybe[str] = UNSET
    """Where kube-scheduler keeps room for the waiting pod, by preemption."""
    placed: Maybe[str] = UNSET
    """How a bound pod is scored."""
    phase: Maybe[str] = UNSET
    policy: Maybe[PodPolicy | None] = UNSET
    gates: Maybe[list[str]] = UNSET
    scheduler: Maybe[str] = UNSET
    scheduler_reason: Maybe[str | None] = UNSET
    scheduler_message: Maybe[str | None] = UNSET
    requests_decide: Maybe[str] = UNSET
    node_counts: Maybe[NodeCounts] = UNSET
    nodes_more: Maybe[int] = UNSET
    window: Maybe[ShownWindow] = UNSET
    problems: Maybe[list[str]] = UNSET
    """Of its requests."""
    nodes: Entries[dict[str, PodNode]] = UNSET


class PodsPage(BasePage, kw_only=True):
    """/pods.json."""

    window: ShownWindow
    pods: Entries[list[ListedPod]] = UNSET


class ExplainedMetric(Fields, kw_only=True):
    """A metric, as far as policies read it."""

    read: bool
    nodes_with: Maybe[int] = UNSET
    nodes_with_several: Maybe[int] = UNSET
    nodes_without: Maybe[int] = UNSET
    nodes_pending: Maybe[int] = UNSET
    lowest: Maybe[Number] = UNSET
    highest: Maybe[Number] = UNSET
    similar: Maybe[list[str]] = UNSET


class MetricList(BasePage, kw_only=True):
    """/explain?metric=."""

    node_count: int
    metrics: Entries[dict[str, ExplainedMetric]] = UNSET


class UsedMetric(Fields, kw_only=True):
    """A metric that policies use."""

    nodes: dict[str, int]
    """By state."""
    named: dict[str, list[str]]
    """Some of the nodes that cannot use it, by state."""
    policies: list[str]
    policies_more: Maybe[int] = UNSET
    similar: list[str]
    problem: str


class FailedRule(FailingRule):
    """A recording rule that fails on nodes for one reason; `message`: of most nodes."""

    messages: int
    node_count: int
    nodes: list[str]


class FailureCounts(Fields):
    """How many nodes and failures there are; `notStored`: those of which no more is known."""

    nodes: int
    failures: int
    not_stored: int


class RulesPage(BasePage, kw_only=True):
    """/rules.json."""

    node_count: int
    failing: FailureCounts
    window: ShownWindow
    metrics: Entries[dict[str, UsedMetric]] = UNSET
    failing_rules: Entries[list[FailedRule]] = UNSET


class ErrorPage(Fields):
    """What the page of an error says."""

    message: str


PAGES: tuple[type[Fields], ...] = (
    *(PolicyList, Overview, ExplainedPolicy, PolicyPage, NodeList, NodesPage, NodePage),
    *(PodPage, PodsPage, MetricList, RulesPage),
    *(ListedPolicy, OverviewPolicy, Evaluator, Enforcement, Written, PodNode),
)
"""All pages, and the objects on them that features extend."""
