"""Pages for a browser, and /explain as JSON, on the operations port. Last in the list of features: it shows the others."""

import time
from collections.abc import Mapping

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.http.responses import error
from evaluator.core.readings.merged import AGENTS
from evaluator.core.wiring import Wired
from evaluator.features.pages.browser import BrowserPages
from evaluator.features.pages.json_pages import ExplainPages
from evaluator.features.pages.options import PageOptions
from evaluator.features.pages.pod_reader import PodReader
from evaluator.features.pages.reports import Reports
from evaluator.features.pages.sources import PageSources
from evaluator.features.pages.targets import EXPLAIN, Targets
from evaluator.features.pages.violation_times import ViolationTimes
from plimsoll.html import assets
from plimsoll.http.routes import Route
from plimsoll.http.types import Request, Response


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
    times, replica = ViolationTimes(), _Replica(core)
    core.loop.followers.append(times.update)
    sources = PageSources(
        core.loop,
        core.cluster,
        clock=time.monotonic,
        effects=core.contributions.effects,
        policy_parts=core.contributions.parts,
        parts=core.contributions.pages,
        read_pod=PodReader(core.api).read,
        since=times.since,
        is_leader=core.fence.is_leader,
        leader=replica.leader,
        agents=replica.agents,
        readings_from=core.options.sources,
        failing_rules=core.failing_rules,
    )
    targets = Targets(sources.sections)
    return Wired(ops_routes=routes(Reports(sources), targets), resource_path=targets.resource_path)


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


FEATURE = Feature(name="pages", options=PageOptions, wire=wire)
