"""What a feature returns when it is wired: a plain value that the evaluator serves, runs and shows.

`Contributions` has the values of all features, for those that show, report or enforce them.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Counter

from evaluator.core.http.ports import Port
from evaluator.core.http.responses import RouteGroup
from evaluator.core.loop.loop import DecisionParts
from evaluator.core.model.names import PolicyKey
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.stops import NO_STOPS, Stops, StopsNow
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.policy_status import Effects, PolicyPart
from evaluator.core.protocol import Args, ForPod
from evaluator.core.signals import ActionKind, Reaction
from plimsoll.http.routes import Route
from plimsoll.http.types import Request

Loop = Callable[[], Coroutine[Any, Any, None]]
"""Returns a coroutine that runs until it is cancelled."""


def _known() -> bool:
    """Return True: nothing is to be found out first."""
    return True


@dataclass(frozen=True, kw_only=True)
class Wired:
    """A feature that is connected to the core: what the evaluator serves, runs and shows of it."""

    reacts: Sequence[Reaction] = ()
    """What the feature does at signals."""
    decides: Sequence[DecisionParts] = ()
    """What it adds to decisions."""
    words: Callable[[Vocabulary], Awaitable[Vocabulary]] | None = None
    """Returns the words of policies as the cluster decides them; awaited before policies are read."""
    scheduler_routes: Sequence[RouteGroup] = ()
    """On kube-scheduler's port."""
    ops_routes: Mapping[str, Route] = field(default_factory=dict)
    """On the operations port, by path."""
    resource_path: Callable[[Request], str | None] | None = None
    """Returns the one path of what a request to these routes shows, by which permissions name it; None for routes of others."""
    ports: Sequence[Port] = ()
    """Ports of its own."""
    loops: Sequence[Loop] = ()
    """Run on every replica; those that write check whether this replica leads."""
    leaves: Loop | None = None
    """What is written before a replica that stops gives up leadership; it is cancelled after a short time."""
    waiting_for: Callable[[], Sequence[str]] = tuple
    """What is missing before this replica is ready."""
    effects: Effects | None = None
    policy_part: Callable[[Decision], PolicyPart] | None = None
    """What it adds to a policy's status and Events."""
    part_known: Callable[[], bool] = _known
    """Whether `policy_part` is known yet; until then no status is written."""
    may_act: Callable[[PolicyKey, str], bool] | None = None
    """Whether a policy may act on a node, within limits."""
    stops: StopsNow | None = None
    """What is stopped; one feature at most. It publishes `StopsChanged`."""
    deschedules: bool = False
    """Whether pods leave nodes that violate `deschedule`, so that this counts for limits of nodes."""
    for_pod: ForPod | None = None
    """Refines a policy's decision for one pod, as the features before it refined it."""
    action_kinds: Sequence[str] = ()
    """Values of `Acted.kind` beside those of the core."""
    policy_counters: Sequence[Counter] = ()
    """Counters with the labels `namespace` and `policy`, whose series go when the policy goes."""
    page: PagePart | None = None


class Contributions:
    """The parts of all wired features, in the order of the list of features."""

    def __init__(self) -> None:
        self._wired: list[Wired] = []
        self._stops: StopsNow | None = None

    def add(self, wired: Wired) -> None:
        """Add the parts of a feature. Raises ValueError for a second one with stops."""
        if wired.stops is not None and self._stops is not None:
            raise ValueError("two features cannot stop policies")
        self._stops = wired.stops or self._stops
        self._wired.append(wired)

    async def words(self, vocabulary: Vocabulary) -> Vocabulary:
        """Return the words of policies with what features read of them in the cluster."""
        for wired in self._wired:
            if wired.words is not None:
                vocabulary = await wired.words(vocabulary)
        return vocabulary

    def stops(self) -> Stops:
        """Return what is stopped."""
        return self._stops() if self._stops is not None else NO_STOPS

    def is_descheduling(self) -> bool:
        """Return whether pods leave nodes that violate `deschedule`."""
        return any(wired.deschedules for wired in self._wired)

    def action_kinds(self) -> list[str]:
        """Return the values of `Acted.kind`."""
        return [*ActionKind, *(kind for wired in self._wired for kind in wired.action_kinds)]

    def waiting_for(self) -> list[str]:
        """Return what features miss before this replica is ready."""
        return [missing for wired in self._wired for missing in wired.waiting_for()]

    def effects(self) -> Iterator[Effects]:
        """Return what knows the effects of enforcing a policy."""
        return (wired.effects for wired in self._wired if wired.effects is not None)

    def known(self) -> bool:
        """Return whether all features know their parts of statuses; false right after the start."""
        return all(wired.part_known() for wired in self._wired)

    def parts(self, decision: Decision) -> Iterator[PolicyPart]:
        """Yield what features add to the status of a policy."""
        return (
            wired.policy_part(decision) for wired in self._wired if wired.policy_part is not None
        )

    def resource_path(self, request: Request) -> str | None:
        """Return the path by which permissions name what a request to the operations port shows; None for no page."""
        for wired in self._wired:
            if wired.resource_path and (path := wired.resource_path(request)) is not None:
                return path
        return None

    def may_act(self, policy: PolicyKey, node: str) -> bool:
        """Return whether a policy is not frozen and may act on a node within the limits of nodes."""
        return self.stops().permit(policy) and all(
            wired.may_act(policy, node) for wired in self._wired if wired.may_act
        )

    def pages(self) -> Sequence[PagePart]:
        """Return what features show on pages."""
        return [wired.page for wired in self._wired if wired.page is not None]

    def for_pod(self, args: Args, decision: Decision, decisions: Decisions) -> Decision:
        """Return a policy's decision for the pod of a request. Raises BadRequestError and DerivedMetricError."""
        for wired in self._wired:
            if wired.for_pod is not None:
                decision = wired.for_pod(args, decision, decisions)
        return decision
