"""What features contribute to pages, for the feature that draws them; and what placed pods add to readings, in words."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.placement.measures import Measures, shown
from evaluator.core.placement.placements import Counted, Placements
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.report import Facts, Window
from plimsoll.text import counted as with_noun

LONGEST_PATH = 2_000
"""Longest path that is decoded; a namespace and a name have at most 506 characters."""
SHOWN = 400
"""Characters of a name shown in an error; names in Kubernetes are shorter."""
Entries = Iterable[tuple[str, Mapping[str, Any]]]
"""Names, and what is known of each."""


class PageError(Exception):
    """A page that cannot be made; the message is for the client."""

    def __init__(self, sentence: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Report:
    """A page as data: the fields of `head`, then `objects` by name and `arrays`. Their entries may be made while they are read."""

    head: Mapping[str, Any]
    objects: Mapping[str, Entries] = field(default_factory=dict)
    arrays: Mapping[str, Iterable[Mapping[str, Any]]] = field(default_factory=dict)


class PageView(NamedTuple):
    """One page of a section: its template, title, what builds its report, and the object that it is about."""

    template: str
    title: str
    build: Callable[[], Awaitable[Report]]
    subject: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """Pages of a feature below `/<name>`, with an entry in the navigation.

    `listed` makes the page of the list, `one` that of an object by namespace and name. `query` is the parameter of
    /explain that selects an object, `explained` its report as JSON for a name, or for all objects if that is empty.
    """

    name: str
    title: str
    shown: bool
    """Whether the feature is on; if not, its pages say so."""
    templates: Path
    listed: Callable[[Window], PageView]
    one: Callable[[str, Window], PageView]
    query: str
    explained: Callable[[str], Awaitable[Report]]
    see: Mapping[str, str]
    """What /explain says about its addresses."""
    parameters: Sequence[str] = ()
    """Names of its own filters in the query; a `Window` has their values."""


class PodOpinions(NamedTuple):
    """How extenders beside the policies judge nodes for a pod: fields of the page, and fields by node.

    `refusedBy` of a node names what refuses it.
    """

    head: Facts
    nodes: Mapping[str, dict[str, Any]]


class PodJudge(Protocol):
    """Judges nodes for existing pods, as it answers kube-scheduler."""

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before pods can be judged."""
        ...

    def find(self, name: str) -> PodRecord | None:
        """Return the pod namespace/name, or None."""
        ...

    async def opinions(self, pod: PodRecord) -> PodOpinions:
        """Return what is known of a pod on all nodes. Raises PageError."""
        ...

    def decision(self, pod: PodRecord) -> Decision | None:
        """Return the decision of the pod's policy for this pod; None if it is that for all pods."""
        ...


class Scope(NamedTuple):
    """What a page is about: the objects of a namespace, a policy, or a node; all, if empty."""

    namespace: str = ""
    policy: str = ""
    node: str = ""


class PagePast(Protocol):
    """What was before, for pages about the present: `timeline` and the newest `records`. Methods raise PageError."""

    @property
    def position(self) -> str:
        """The newest record, as a text that `changed` takes."""
        ...

    async def changed(self, scope: Scope, after: str) -> tuple[str, bool]:
        """Wait for a record of a scope after a position, for some seconds; return the position then, and whether there is one."""
        ...

    async def of_all(self, window: Window) -> Facts:
        """Return the past of the nodes, in the namespace and interval of a window."""
        ...

    async def of_policy(self, key: PolicyKey, window: Window) -> Facts:
        """Return the past of the nodes in one policy."""
        ...

    def of_pod(self, name: str) -> Facts:
        """Return the last decision for the pod namespace/name: `decision`, None if none is known."""
        ...

    async def of_node(self, name: str, window: Window) -> Facts:
        """Return the past of one node in each policy."""
        ...


@dataclass(frozen=True, kw_only=True)
class PagePart:
    """What one feature shows on pages of the evaluator, policies, nodes and pods."""

    evaluator: Callable[[], Facts] = dict
    """Of this replica."""
    policy: Callable[[Decision], Facts] = field(default=lambda _decision: {})
    listed: Callable[[Decision], Facts] = field(default=lambda _decision: {})
    """Of a policy in a list of policies."""
    node: Callable[[str], Facts] = field(default=lambda _name: {})
    """What it knows of the node of a name."""
    written: Callable[[Node | None], Facts] = field(default=lambda _node: {})
    """What it wrote to a node, as the node has it now; None: the node is not known."""
    written_for: Callable[[Node | None, Decision], Facts] = field(
        default=lambda _node, _decision: {}
    )
    """The part of it that one policy caused."""
    pod: Callable[[Pod, Facts], Facts] = field(default=lambda _pod, _page: {})
    """Of a pod whose page has some fields."""
    judge: PodJudge | None = None
    past: PagePast | None = None
    section: Section | None = None


def placed_on(measures: Measures, found: Counted, node: int) -> Iterator[dict[str, Any]]:
    """Yield what counts on the node at a position, by metric: `pods`, `counted` and both as a sentence."""
    ranking = found.decision.ranking
    for metric, added in found.added.items():
        pods = float(added.placed[node])
        if not pods:
            continue
        ranks = ranking is not None and ranking.rule.metric == metric
        amount = float((added.ranking if ranks else added.unbiased)[node])
        measure, noun = measures.of(metric), "pod" if pods == 1 else "pods"
        text, exact = shown(amount, measure), shown(float(added.unbiased[node]), measure)
        if exact != text and metric in _filtered(found):
            text += f" in the ranking and {exact} in dontschedule"
        yield {
            "metric": metric,
            "pods": pods,
            "counted": amount,
            "text": f"{pods:g} {noun} placed since this reading, counted as {text}",
        }


def _filtered(found: Counted) -> frozenset[str]:
    strategy = found.decision.policy.strategies.get(StrategyName.DONTSCHEDULE)
    return frozenset(rule.metric for rule in strategy.rules) if strategy else frozenset()


def learned_of(placements: Placements, policy: PolicyKey) -> dict[str, dict[str, Any]]:
    """Return what pods of a policy were seen to add, by metric, with a sentence."""
    found = {}
    for (key, metric), added in placements.learned.all().items():
        if key == policy:
            amount = shown(added.per_pod, replace(placements.measures.of(metric), share=False))
            trials = with_noun(added.trials, "trial")
            text = f"a pod adds {amount}: the median of {trials}"
            found[metric] = {"perPod": added.per_pod, "trials": added.trials, "text": text}
    return found
