"""What happens in the evaluator: a row for each signal, and the bus that passes signals on.

A publisher publishes a value and does not know who reacts. A reaction is declared as a value, in `Wired.reacts` of a feature
or in `Core.reactions`; `evaluator/app.py` connects all of them. docs/architecture.md has the generated table of signals,
publishers and reactions.

Reactions run at once, on the event loop's thread, in the order of the list of features, and do little: most wake a loop. The
order does not matter: no reaction reads what another one of the same signal writes. What a reaction raises is logged and
counted, and costs the other reactions nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.events import EventSpec
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import NodeCondition
from evaluator.core.model.node_index import NodeScores
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.policy.decide import Decisions
from wire.failing_rules import FailingRules
from wire.problems import ProblemEvent, Problems


class Signal(msgspec.Struct, frozen=True):
    """Something that happened. The docstring of a subclass says what; its fields are the value."""


class PolicyChanged(Signal, frozen=True):
    """A policy was added, changed or deleted."""


class KindListed(Signal, frozen=True):
    """The first list of policies, nodes or pods is complete: the first decision waits for all three."""


class NodeSetChanged(Signal, frozen=True):
    """A node was added, replaced by another of its name, or deleted."""


class NodeRegistered(Signal, frozen=True):
    """A node was registered, possibly replacing one of the same name, or deleted (not `registered`), after the first list."""

    node: str
    registered: bool


class NodeLabelsChanged(Signal, frozen=True):
    """A node's labels or their owners changed, or the node was added or deleted."""

    node: str


class NodeConditionsChanged(Signal, frozen=True):
    """A node's conditions, or only their times, changed; none are left of a deleted node."""

    node: str
    conditions: Sequence[NodeCondition]


class NodeActionsChanged(Signal, frozen=True):
    """What features set on a node (`Node.acted_on`) changed, or the node was added or deleted."""

    node: str


class NodeCapacityChanged(Signal, frozen=True):
    """A node's allocatable resources or usage annotations changed, or the node was added or deleted."""

    node: str


class NodeAnnotationsChanged(Signal, frozen=True):
    """A node's annotations with our prefix, or its machine, changed, or the node was added or deleted."""

    node: str


class PolicyPodChanged(Signal, frozen=True):
    """A pod with a policy label changed; None: it is absent."""

    before: Pod | None
    after: Pod | None


class PlacementChanged(Signal, frozen=True):
    """A pod with a policy label changed, or whether pods can be placed on a node."""


class PodChanged(Signal, frozen=True):
    """Any pod changed, where all pods are watched; None: it is absent."""

    before: PodRecord | None
    after: PodRecord | None


class NodeUsageChanged(Signal, frozen=True):
    """What the pods on a node request changed, where all pods are watched."""

    node: str


class WatchResumed(Signal, frozen=True):
    """A stale watch receives again: writes were due meanwhile."""


class SourcePolled(Signal, frozen=True):
    """A reading of a polled source changed."""


class AgentReported(Signal, frozen=True):
    """An agent reported; `changed`: a reading differs from the last one."""

    node: str
    changed: bool


class SimilarNamesReported(Signal, frozen=True):
    """An agent reported names of its series that resemble absent metrics, by metric."""

    names: Mapping[str, Sequence[str]]


class MatchingNamesReported(Signal, frozen=True):
    """An agent reported names of its metrics that match the requested patterns."""

    names: Sequence[str]


class FailingRulesReported(Signal, frozen=True):
    """An agent reported its failing rules, or its stream ended: then there are none."""

    node: str
    rules: FailingRules


class CausesReported(Signal, frozen=True):
    """An agent reported what the values of its metrics come from, by metric."""

    node: str
    causes: Mapping[str, str]


class ProblemsReported(Signal, frozen=True):
    """An agent reported the problems of its node."""

    node: str
    problems: Problems


class ProblemConditionsChanged(Signal, frozen=True):
    """The conditions that an agent reports of its node differ from the last ones."""

    node: str


class ProblemOccurred(Signal, frozen=True):
    """An agent reported an event of its node."""

    node: str
    event: ProblemEvent


class ProblemAcknowledged(Signal, frozen=True):
    """The acknowledgements of a node's problems changed."""

    node: str


class AgentRefused(Signal, frozen=True):
    """A stream of an agent was rejected with a gRPC status."""

    code: str


class AgentsPortRestarted(Signal, frozen=True):
    """The process of the agents' port ended and is started again, at `at` (seconds, the clock of the loop)."""

    at: float


class Decided(Signal, frozen=True):
    """New decisions replaced the current ones at `at` (seconds, the clock of the loop). Reactions may return steps."""

    decisions: Decisions
    at: float


class LeadershipGained(Signal, frozen=True):
    """This replica became leader: it may write, and others may have written since it last read."""


class PolicyReportChanged(Signal, frozen=True):
    """What a feature adds to the statuses and Events of policies changed, or which nodes a policy may act on."""


class StopsChanged(Signal, frozen=True):
    """What is stopped changed."""


class FrontProxyChanged(Signal, frozen=True):
    """The CA of the front proxy changed: connections whose certificate the previous CA signed should end."""


class ActionKind(StrEnum):
    """What the core does, for `Acted`."""

    LEADER = "leader"
    """Leadership of this replica, gained or lost."""
    WRITTEN = "written"
    """To a node."""
    NOT_WRITTEN = "not written"


class Acted(Signal, frozen=True):
    """This replica did something: `kind` is an `ActionKind` or one of `Wired.action_kinds`; `pod` is namespace/name."""

    kind: str
    policy: PolicyKey | None = None
    node: str = ""
    pod: str = ""
    text: str = ""
    """What was done, or why."""
    notice: EventSpec | None = None
    """The Event on the node: by which policy, and why."""
    topic: str = ""
    """Of what every replica notices by itself: the last action of a topic says what is so, and a repetition of it is none."""


class Answered(Signal, frozen=True):
    """kube-scheduler was answered about `candidates` nodes for the pod namespace/name: `refused` by filter, `scores` by prioritize."""

    pod: str
    policy: PolicyKey
    decisions: Decisions
    candidates: int
    refused: Mapping[str, str] | None = None
    scores: NodeScores | None = None


S = TypeVar("S", bound=Signal)
Publish = Callable[[Signal], None]


def unheard(_signal: Signal) -> None:
    """Publish to nobody."""


@dataclass(frozen=True)
class Reaction:
    """What is called with each value of a signal. `name`: of the function, for the table of reactions."""

    signal: type[Signal]
    handle: Callable[[Any], object]
    name: str


class _OfNode(Protocol):
    @property
    def node(self) -> str: ...


N = TypeVar("N", bound=_OfNode)


def on(signal: type[S], handle: Callable[[S], object]) -> Reaction:
    """Call a function with each value of a signal."""
    return Reaction(signal, handle, _name(handle))


def on_node(signal: type[N], handle: Callable[[str], object]) -> Reaction:
    """Call a function with the node of each value of a signal."""
    return Reaction(signal, lambda value: handle(value.node), _name(handle))  # type: ignore[arg-type]


def wakes(wake: Callable[[], object], *signals: type[Signal]) -> tuple[Reaction, ...]:
    """Call a function without arguments at each of these signals."""
    return tuple(Reaction(signal, lambda _value: wake(), _name(wake)) for signal in signals)


def _name(handle: Callable[..., object]) -> str:
    """Return the class and name of a bound method, or the name of a function."""
    owner = getattr(handle, "__self__", None)
    name: str = getattr(handle, "__name__", type(handle).__name__)
    return f"{type(owner).__name__}.{name}" if owner is not None else name


class Signals:
    """Passes signals on to the reactions that were connected."""

    def __init__(self, guard: Callable[[str], Guard] = lambda _name: UNGUARDED) -> None:
        """`guard` returns what takes what a reaction of this name raises."""
        self.guard = guard
        self._reactions: dict[type[Signal], list[tuple[Reaction, Guard]]] = defaultdict(list)

    def connect(self, reactions: Iterable[Reaction], owner: str = "core") -> None:
        """Connect reactions: they are called from the next signal on. `owner`: the feature that they are of."""
        for reaction in reactions:
            named = replace(reaction, name=f"{owner}: {reaction.name}")
            self._reactions[reaction.signal].append((named, self.guard(named.name)))

    def connected(self) -> dict[type[Signal], list[str]]:
        """Return the names of the reactions to each signal, each after its owner."""
        return {signal: [one.name for one, _ in found] for signal, found in self._reactions.items()}

    def publish(self, signal: Signal) -> None:
        """Call the reactions to a signal."""
        for reaction, guard in self._reactions.get(type(signal), ()):
            guard.run(_object(signal), partial(reaction.handle, signal), None)

    def publish_in_steps(self, signal: Signal) -> Iterator[None]:
        """Call the reactions to a signal, then run the steps that some of them returned, one after the other."""
        key = _object(signal)
        results = [
            (guard, guard.run(key, partial(reaction.handle, signal), None))
            for reaction, guard in self._reactions.get(type(signal), ())
        ]
        for guard, steps in results:
            if isinstance(steps, Generator):
                yield from guard.steps(key, steps)


def _object(signal: Signal) -> str:
    """Return what a signal is about: its node, else its name."""
    node: str = getattr(signal, "node", "") or type(signal).__name__
    return node
