"""What features contribute to pages of policies, nodes and pods, for the feature that draws them."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.page_fields import (
    EvaluatorFields,
    ListedPolicyFields,
    NodeFields,
    OverviewFields,
    PodFields,
    PodOpinion,
    PolicyFields,
    WrittenFields,
)
from evaluator.core.pages.section import Section
from evaluator.core.pages.window import Window
from evaluator.core.policy.decide import Decision


class PodOpinions(NamedTuple):
    """How extenders beside the policies judge nodes for a pod: fields of the page, the judgement by node, and the texts of refusals."""

    head: PodFields
    nodes: Mapping[str, PodOpinion]
    reasons: Set[str] = frozenset()


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
    """What was before, for pages about the present. Methods raise PageError."""

    def position_of(self, scope: Scope) -> str:
        """Return the newest record of a scope's namespace, or of all, as a text that `changed` takes."""
        ...

    async def changed(self, scope: Scope, after: str) -> tuple[str, bool]:
        """Wait for a record of a scope after a position, for some seconds; return the position then, and whether there is one."""
        ...

    async def of_all(self, window: Window) -> OverviewFields:
        """Return the past of the nodes, in the namespace and interval of a window."""
        ...

    async def of_policy(self, key: PolicyKey, window: Window) -> PolicyFields:
        """Return the past of the nodes in one policy."""
        ...

    def of_pod(self, name: str) -> PodFields:
        """Return the last decision for the pod namespace/name, if one is known."""
        ...

    async def of_gone_pod(self, name: str) -> PodFields | None:
        """Return how the pod namespace/name, which does not exist, was evicted; None if no eviction is known."""
        ...

    async def of_node(self, name: str, window: Window) -> NodeFields:
        """Return the past of one node in each policy."""
        ...


def _nothing(*_about: object) -> None:
    """Return None: no fields."""


def _no_notices(_namespace: str = "") -> Sequence[str]:
    """Return nothing."""
    return ()


@dataclass(frozen=True, kw_only=True)
class PagePart:
    """What one feature shows on pages of the evaluator, policies, nodes and pods; None: nothing now.

    The types of these fields are among `Feature.pages`.
    """

    evaluator: Callable[[], EvaluatorFields | None] = _nothing
    """Of this replica."""
    notices: Callable[[str], Sequence[str]] = _no_notices
    """Sentences that every page of a namespace shows, or of all namespaces if it is empty."""
    policy: Callable[[Decision], PolicyFields | None] = _nothing
    listed: Callable[[Decision], ListedPolicyFields | None] = _nothing
    """Of a policy in a list of policies."""
    node: Callable[[str], NodeFields | None] = _nothing
    """What it knows of the node of a name."""
    written: Callable[[Node | None], WrittenFields | None] = _nothing
    """What it wrote to a node, as the node has it now; None: the node is not known."""
    written_for: Callable[[Node | None, Decision], WrittenFields | None] = _nothing
    """The part of it that one policy caused."""
    pod: Callable[[Pod], PodFields | None] = _nothing
    judge: PodJudge | None = None
    past: PagePast | None = None
    section: Section | None = None
