"""The interface of a feature: what it declares, and what it returns when it is wired to the core.

`evaluator.features.registry` lists the features. Each is a package with a module `feature` that has a `Feature`; it
imports `evaluator.core`, and no other feature.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from prometheus_client import CollectorRegistry

from evaluator.core.http.ports import Port, RouteGroup
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.options import FeatureOptions
from evaluator.core.pages import PagePart
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.vocabulary import NO_FEATURES, Vocabulary
from evaluator.core.protocol.codec import Args
from evaluator.core.replay import StartReplay
from evaluator.core.report import Effect, PolicyPart
from evaluator.core.writes.removal import Removal
from plimsoll.http.routes import Route

if TYPE_CHECKING:
    from evaluator.core.assembly import Core

Loop = Callable[[], Coroutine[Any, Any, None]]
"""Returns a coroutine that runs until it is cancelled."""


Options = TypeVar("Options", bound=FeatureOptions)


class Effects:
    """What a feature changes by enforcing a policy; this class itself: nothing."""

    def catching_up(self, decisions: Decisions) -> Iterator[None]:
        """Bring what `of` needs up to date, in steps."""
        yield from ()

    def of(self, decision: Decision, table: MetricTable) -> Iterator[Effect]:
        """Yield the effects of enforcing a policy now. Limits are not applied."""
        yield from ()

    def facts(self) -> Mapping[str, Any]:
        """Return what /explain says about the feature's flags."""
        return {}


ForPod = Callable[[Args, Decision, Decisions], Decision]
"""Returns a policy's decision for the pod of a request."""


def _nothing(_options: FeatureOptions) -> Iterable[str]:
    """Return nothing: the flags are enough."""
    return ()


def _no_metrics(_registry: CollectorRegistry) -> None:
    """Register nothing."""


def _known() -> bool:
    """Return True: nothing is to be found out first."""
    return True


@dataclass(frozen=True, kw_only=True)
class Wired:
    """A feature that is connected to the core: what the evaluator serves, runs and shows of it."""

    scheduler_routes: Sequence[RouteGroup] = ()
    """On kube-scheduler's port."""
    ops_routes: Mapping[str, Route] = field(default_factory=dict)
    """On the operations port, by path."""
    ports: Sequence[Port] = ()
    """Ports of its own."""
    loops: Sequence[Loop] = ()
    """Run on every replica; those that write check whether this replica leads."""
    waiting_for: Callable[[], Sequence[str]] = tuple
    """What is missing before this replica is ready."""
    effects: Effects | None = None
    policy_part: Callable[[Decision], PolicyPart] | None = None
    """What it adds to a policy's status and Events."""
    part_known: Callable[[], bool] = _known
    """Whether `policy_part` is known yet; until then no status is written."""
    may_act: Callable[[PolicyKey, str], bool] | None = None
    """Whether a policy may act on a node, within limits."""
    for_pod: ForPod | None = None
    """Refines a policy's decision for one pod."""
    records: Callable[[Node], Mapping[str, str]] | None = None
    """Returns what the feature wrote to a node that shows, after a restart, that the node violated a policy."""
    page: PagePart | None = None


@dataclass(frozen=True, kw_only=True)
class Written(Generic[Options]):
    """What a feature writes to nodes. `removals` yields the writes that remove it; `options`: the flags of `clean` for it."""

    options: type[Options]
    removals: Callable[[Options, Node], Iterator[Removal]]


@dataclass(frozen=True, kw_only=True)
class Replayable(Generic[Options]):
    """A feature that a backtest replays. `options`: the flags of `backtest` for it."""

    options: type[Options]
    start: Callable[[Options], StartReplay]


@dataclass(frozen=True, kw_only=True)
class Feature(Generic[Options]):
    """One entry in the list of features. `wire` connects it; with its flags off it may return nothing to run."""

    name: str
    wire: "Callable[[Core, Options], Wired]"
    options: type[Options]
    metrics: Callable[[CollectorRegistry], object] = _no_metrics
    """Registers the metrics of the feature. `wire` calls it, also with the flags off; the documentation lists them by it."""
    check: Callable[[Options], Iterable[str]] = _nothing
    """Yields what keeps the feature from starting with these flags, each as a sentence."""
    vocabulary: Vocabulary = NO_FEATURES
    written: Written[Any] | None = None
    """What it writes to nodes, for the command `clean`."""
    replayable: Replayable[Any] | None = None
    """What it does with decisions, for the command `backtest`."""
