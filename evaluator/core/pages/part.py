"""What features contribute to pages of policies, nodes and pods, for the feature that draws them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.pages.facts import Facts
from evaluator.core.pages.section import Section
from evaluator.core.pages.window import Window
from evaluator.core.policy.decide import Decision


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
