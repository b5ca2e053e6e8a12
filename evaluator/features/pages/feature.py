"""Pages for a browser, and /explain as JSON, on the operations port. Last in the list of features: it shows the others."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.http.responses import error
from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.pod import Pod
from evaluator.core.options import FeatureOptions
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.decide import Decision
from evaluator.core.policy_status import PolicyPart
from evaluator.core.readings.merged import AGENTS
from evaluator.core.signals import Decided, on
from evaluator.core.wiring import Wired
from evaluator.features.pages.guarded import answering, guarded
from evaluator.features.pages.handlers import BrowserPages, ExplainPages, Reports
from evaluator.features.pages.kinds import PAGES
from evaluator.features.pages.sources import PageSources, UnreadablePodError, ViolationTimes
from evaluator.features.pages.targets import EXPLAIN, Targets
from plimsoll.flags import option
from plimsoll.html import assets
from plimsoll.http.routes import Route
from plimsoll.http.types import Request, Response
from plimsoll.ratelimit import TokenBucket

_READS_PER_SECOND, _READS_AT_ONCE = 5.0, 10
"""Pods read from the API server for /explain: the port has no authentication."""
_TIMEOUT = 5.0
"""Seconds for one of them."""


@dataclass(frozen=True, kw_only=True)
class PageOptions(FeatureOptions):
    """The pages of the operations port."""

    explain: bool = option(
        "explain",
        True,
        "serve pages for a browser, and /explain as JSON, on the ops port, to any client that can reach it: policies with the readings of all nodes, and why "
        "pods wait",
    )


class PodReader:
    """Reads single pods from the API server, at a limited rate."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._bucket = TokenBucket(_READS_PER_SECOND, _READS_AT_ONCE)

    async def read(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, or None if there is none of this name. Raises UnreadablePodError."""
        await asyncio.sleep(self._bucket.take(time.monotonic()))
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await self._kube.get_pod(namespace, name)
        except KubeError as failure:
            if failure.status == HTTPStatus.NOT_FOUND:
                return None
            raise UnreadablePodError(
                f"pod {namespace}/{name} cannot be read: {failure}"
            ) from failure
        except TimeoutError as failure:
            raise UnreadablePodError(
                f"pod {namespace}/{name} cannot be read: the API server did not answer in {_TIMEOUT:g} s"
            ) from failure


class _Replica:
    """What the first page says about this replica."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def leader(self) -> str:
        """Return the replica that holds the lease, as last read; empty if none does."""
        return self._core.leader.holder

    def agents(self) -> int | None:
        """Return the number of connected agents; None if they are no source."""
        if AGENTS not in self._core.options.sources:
            return None
        return self._core.connected_agents()


def wire(core: Core, options: PageOptions) -> Wired:
    """Serve the pages; with --no-explain, say that they are off."""
    if not options.explain:
        return Wired(ops_routes=routes_off())
    times, replica, part = (
        ViolationTimes(),
        _Replica(core),
        core.isolation.part("pages", vital=False),
    )

    @cache
    def parts() -> Sequence[PagePart]:
        return guarded(core.contributions.pages(), part)

    def policy_parts(decision: Decision) -> Sequence[PolicyPart]:
        key = f"problems of {decision.policy.key}"
        return part.run(key, lambda: tuple(core.contributions.parts(decision)), ())

    sources = PageSources(
        core.loop,
        core.cluster,
        clock=time.monotonic,
        effects=core.contributions.effects,
        policy_parts=policy_parts,
        parts=parts,
        read_pod=PodReader(core.api).read,
        since=times.since,
        is_leader=core.fence.is_leader,
        leader=replica.leader,
        agents=replica.agents,
        port_restarts=core.port_restarts if AGENTS in core.options.sources else None,
        readings_from=core.options.sources,
        failing_rules=core.failing_rules,
        causes=core.causes,
        placements=core.placements,
    )
    targets = Targets(sources.sections)
    found = routes(Reports(sources), targets)
    return Wired(
        reacts=[on(Decided, times.update)],
        ops_routes={
            path: replace(route, handler=answering(route.handler, part))
            for path, route in found.items()
        },
        resource_path=targets.resource_path,
    )


def routes(reports: Reports, targets: Targets | None = None) -> Mapping[str, Route]:
    """Return the routes of the pages on the operations port."""
    targets = targets or Targets(reports.sources.sections)
    explain, browser = ExplainPages(reports, targets), BrowserPages(reports, targets)
    return {
        **dict.fromkeys([EXPLAIN, f"{EXPLAIN}/"], Route(explain.answer)),
        **dict.fromkeys(targets.paths(), Route(browser.answer)),
        assets.FOLDER: Route(browser.asset),
    }


def routes_off() -> Mapping[str, Route]:
    """Return routes that say that the pages are off."""
    return dict.fromkeys([EXPLAIN, f"{EXPLAIN}/", *Targets().paths()], Route(_switched_off))


async def _switched_off(request: Request) -> Response:
    what = "/explain is" if request.path.startswith(EXPLAIN) else "pages are"
    return error(f"{what} off (--no-explain)")


FEATURE = Feature(name="pages", options=PageOptions, wire=wire, pages=PAGES)
