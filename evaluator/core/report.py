"""What features report about a policy: parts of its status, Events, what they did, and the effects of enforcing it; and windows of
lists.

A feature contributes parts, other features show them: neither imports the other.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from evaluator.core.model.events import EventSpec
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeScores
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import COMPLIANCE, StrategyName
from evaluator.core.readings.reported import CauseOf
from plimsoll.text import counted

T = TypeVar("T")

PAGE = 200
"""Entries on one page."""
_NAMED = 5
"""Nodes that a message names; the others are counted."""


Facts = Mapping[str, Any]
"""Fields of a page."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which entries of a list a page shows.

    `search`: part of a name; `state`: only entries in it; `page`: from 1; `size`: entries of a page; `namespace`: the only
    one whose objects are listed and counted, empty for all.
    """

    search: str = ""
    state: str = ""
    page: int = 1
    size: int = PAGE
    namespace: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    """The values of further parameters that a section has."""

    def of(self, entries: Sequence[T]) -> Sequence[T]:
        """Return the entries of the page; the last page if there are fewer."""
        begin = (self._within(len(entries)) - 1) * self.size
        return entries[begin : begin + self.size]

    def covers(self, namespace: str) -> bool:
        """Return whether objects of a namespace are listed."""
        return self.namespace in {"", namespace}

    @property
    def skipped(self) -> int:
        """How many entries precede those of the page, if there are as many."""
        return (self.page - 1) * self.size

    def described(self, found: int, total: int) -> dict[str, Any]:
        """Return the window as data: `found` entries match the search and state, out of `total`."""
        return {
            "search": self.search,
            "state": self.state,
            "page": self._within(found),
            "pages": self._pages(found),
            "found": found,
            "total": total,
        }

    def _pages(self, found: int) -> int:
        return max(1, math.ceil(found / self.size))

    def _within(self, found: int) -> int:
        return max(1, min(self.page, self._pages(found)))


@dataclass(frozen=True, slots=True)
class PolicyCondition:
    """One condition of a policy's status, without its transition time, so that equal conditions need no write."""

    type: str
    status: str
    reason: str
    message: str

    def body(self, since: str, generation: int) -> dict[str, Any]:
        """Return the condition as a JSON object; `since` is RFC 3339."""
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since,
            "observedGeneration": generation,
        }


class Episode(NamedTuple):
    """A state of a policy that one Event reports when it begins, and another when it ends.

    `condition`: the type of the condition that is True meanwhile, by which a new process knows what was reported.
    """

    condition: str
    began: EventSpec
    ended: EventSpec


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """What a feature adds to the status and the Events of a policy.

    `problems` are constant sentences, each also an Event; the text of `varying_problems` names nodes or readings, so one
    Event stands for all of them. `episodes`: whether each is going on.
    """

    problems: tuple[str, ...] = ()
    varying_problems: tuple[str, ...] = ()
    conditions: tuple[PolicyCondition, ...] = ()
    episodes: Mapping[Episode, bool] = field(default_factory=dict)


PartsOf = Callable[[Decision], Iterable[PolicyPart]]
"""Returns what features add to the status of a policy."""


def no_parts(_decision: Decision) -> tuple[PolicyPart, ...]:
    """Return nothing: no feature adds to statuses."""
    return ()


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


class Effect(NamedTuple):
    """What enforcing a policy changes: the field of it in /explain, a phrase for the status, and the nodes or pods."""

    field: str
    phrase: str
    names: Sequence[str]


class Effects:
    """What a feature changes by enforcing a policy; this class itself: nothing."""

    def catching_up(self, decisions: Decisions) -> Iterator[None]:
        """Bring what `of` needs up to date, in steps."""
        yield from ()

    def of(self, decision: Decision, table: MetricTable) -> Iterator[Effect]:
        """Yield the effects of enforcing a policy now."""
        yield from ()

    def facts(self) -> Mapping[str, Any]:
        """Return what /explain says about the feature's flags."""
        return {}


def cause_at(table: MetricTable, metric: str, position: int, cause_of: CauseOf) -> str:
    """Return what the reading of a metric on the node at a position comes from, such as a device; empty if no agent says."""
    column = table.columns.get(metric)
    if column is None:
        return ""
    return cause_of(metric, table.nodes[position], column.source_at(position))


def causes_at(
    decision: Decision,
    table: MetricTable,
    position: int,
    cause_of: CauseOf,
    strategies: Iterable[StrategyName] = COMPLIANCE,
) -> list[str]:
    """Return what the readings of the rules that the node at a position violates come from, without those of which no agent says it."""
    found = []
    for name in strategies:
        state = decision.states.get(name)
        if state is not None and state.found.violated[position]:
            found += [
                cause_at(table, state.rules[number].metric, position, cause_of)
                for number in state.found.per_rule[position].nonzero()[0].tolist()
            ]
    return [*dict.fromkeys(filter(None, found))]


def listed(names: Sequence[str], total: int) -> str:
    """Return `2 of 3 nodes (a, b)`; long lists are cut."""
    shown = ", ".join(names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} of {counted(total, 'node')} ({shown}{more})"


def joined(parts: Iterable[Facts]) -> dict[str, Any]:
    """Return the fields of several features together."""
    fields: dict[str, Any] = {}
    for part in parts:
        fields |= part
    return fields
