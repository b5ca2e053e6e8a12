"""What a feature returns when it is wired: a plain value that the evaluator serves, runs and shows."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluator.core.http.ports import Port
from evaluator.core.http.responses import RouteGroup
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.pages import PagePart
from evaluator.core.policy.decide import Decision
from evaluator.core.protocol import ForPod
from evaluator.core.report import Effects, PolicyPart
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

    scheduler_routes: Sequence[RouteGroup] = ()
    """On kube-scheduler's port."""
    ops_routes: Mapping[str, Route] = field(default_factory=dict)
    """On the operations port, by path."""
    resource_path: Callable[[Request], str | None] | None = None
    """Returns the one path of what a request to these routes shows, by which permissions name it."""
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
