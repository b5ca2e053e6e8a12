"""What the evaluator did and answered, passed from those that act to those that record or show it."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeScores
from evaluator.core.policy.decide import Decisions


class ActionKind(StrEnum):
    """What the core does."""

    LEADER = "leader"
    """Leadership of this replica, gained or lost."""
    WRITTEN = "written"
    """To a node."""
    NOT_WRITTEN = "not written"


class Action(NamedTuple):
    """An action: `kind` is one that the journal knows, `pod` is namespace/name, `text` what was done or why."""

    kind: str
    policy: PolicyKey | None = None
    node: str = ""
    pod: str = ""
    text: str = ""


class PodAnswer(NamedTuple):
    """What kube-scheduler was answered for the pod namespace/name about `candidates` nodes: `refused` by filter, `scores` by
    prioritize.
    """

    pod: str
    policy: PolicyKey
    decisions: Decisions
    candidates: int
    refused: Mapping[str, str] | None = None
    scores: NodeScores | None = None


class Journal:
    """Passes actions and answers on to listeners, which take them at once and do little: writers and kube-scheduler wait."""

    def __init__(self) -> None:
        self.kinds: list[str] = [*ActionKind]
        """Features add those of their actions when they are wired."""
        self.listeners: list[Callable[[Action], None]] = []
        self.answer_listeners: list[Callable[[PodAnswer], None]] = []

    def answered(self, answer: PodAnswer) -> None:
        """Pass an answer on."""
        for listener in self.answer_listeners:
            listener(answer)

    def note(self, action: Action) -> None:
        """Pass an action on."""
        for listener in self.listeners:
            listener(action)
