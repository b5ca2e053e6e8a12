"""Answers requests for pages: those for a browser below `/`, and JSON for programs at `/explain`."""

import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple

from evaluator.core.http import responses
from evaluator.core.model.names import PolicyKey
from evaluator.core.pages.section import LONGEST_PATH, SHOWN, PageError, Report, Section
from evaluator.core.pages.window import Window
from evaluator.features.pages import rendering
from evaluator.features.pages.kinds import BasePage, ErrorPage, PodPage, PolicyList
from evaluator.features.pages.pods import NodeReports, PodReports
from evaluator.features.pages.policies import PolicyReports
from evaluator.features.pages.rendering import NEGOTIATED, Drawing, DrawnPages
from evaluator.features.pages.sources import PageSources
from evaluator.features.pages.targets import Resource, Target, Targets
from plimsoll import VERSION, rfc3339
from plimsoll.fairlock import FairLock
from plimsoll.html import assets, headers
from plimsoll.http.pieces import Paced
from plimsoll.http.types import Request, Response
from plimsoll.pace import Pace

_WAITING = 9
"""Clients that may wait while a page is built: ten browsers that refresh at once are all answered."""
_RETRY = 1.0
"""Seconds after which a live page asks again, at least."""
_USUAL, _LIVE = Pace(), Pace(slice=0.0002, rest=3.0)
"""Of pages that a person waits for, and of those that their script fetches again: kube-scheduler's requests go first."""
_POLICIES = 50
"""Policies on one page: each has a strip over all nodes."""

Build = Callable[[], Awaitable[Report]]


class Reports:
    """All reports of an evaluator, built one at a time: `building` is held until a page is written."""

    def __init__(self, sources: PageSources) -> None:
        self.sources = sources
        self.policies = PolicyReports(sources)
        self.nodes = NodeReports(sources)
        self.pods = PodReports(sources)
        self.building = FairLock(_WAITING)

    async def as_json(self, build: Build, namespace: str) -> Response:
        """Build a report and return it as JSON, with what every page of the namespace says. Raises PageError."""
        report = await build()
        notices = self.sources.notices(namespace)
        if notices and isinstance(report.head, BasePage | PolicyList | PodPage):
            report.head.notices = notices
        return await rendering.as_json(report)


class ExplainPages:
    """/explain, /explain/<namespace>, /explain/<namespace>/<policy>, and /explain?pod=, ?node=, ?nodes= and ?metric=.

    Pages of other features have parameters of their own (`Section.query`); without a value, they show all objects.
    """

    def __init__(self, reports: Reports, targets: Targets) -> None:
        self._reports = reports
        self._targets = targets

    async def answer(self, request: Request) -> Response:
        """Answer /explain and all paths below it."""
        if len(request.path) > LONGEST_PATH:
            return responses.error("the name is too long for a policy")
        resource = self._targets.explained(request)
        namespace = self._targets.scope_of(resource).namespace
        if resource.section == "pods":
            return await self._pod("/".join(resource.names), namespace)
        return await self._answer(lambda: self._report(resource, request.query), namespace)

    def _report(self, resource: Resource, query: Mapping[str, Sequence[str]]) -> Awaitable[Report]:
        """Return the report of what a request shows, other than a pod."""
        policies, nodes = self._reports.policies, self._reports.nodes
        for section in self._reports.sources.sections:
            if resource.section == section.name:
                return section.explained("/".join(resource.names))
        match resource:
            case Resource("nodes", (name,)):
                return nodes.node(name)
            case Resource("nodes"):
                return nodes.listed()
            case Resource("rules"):
                return policies.metrics(query["metric"])
            case Resource("policies", (namespace, "")):
                return policies.listed(namespace, {})
            case Resource("policies", (namespace, name)):
                return policies.policy(PolicyKey(namespace, name), query.get("node", ("",))[-1])
            case _:
                return policies.listed("", self._see())

    async def _pod(self, name: str, namespace: str) -> Response:
        pods = self._reports.pods
        try:
            pod = await pods.find(name)
        except PageError as failure:
            return responses.error(str(failure), failure.status)
        return await self._answer(lambda: pods.pod(pod), namespace)

    async def _answer(self, build: Build, namespace: str) -> Response:
        async with self._reports.building.hold():
            try:
                return await self._reports.as_json(build, namespace)
            except PageError as failure:
                return responses.error(str(failure), failure.status)

    def _see(self) -> dict[str, str]:
        pages = {
            "namespace": "/explain/<namespace>",
            "policy": "/explain/<namespace>/<policy>",
            "pod": "/explain?pod=<namespace>/<name>",
            "nodes": "/explain?nodes",
            "node": "/explain?node=<name>",
            "metric": "/explain?metric=<name>",
        }
        for section in self._reports.sources.sections:
            pages |= section.see if section.shown else {}
        return pages


class Page(NamedTuple):
    """A page: its template, title and section of the navigation, what builds its report, and the object that it is about."""

    template: str
    title: str
    section: str
    build: Build
    subject: str = ""


class BrowserPages:
    """The pages below `/`. Links between them are relative, so they work below any prefix that a proxy takes off."""

    def __init__(self, reports: Reports, targets: Targets) -> None:
        self._reports = reports
        self._targets = targets
        self._replica = socket.gethostname()
        self._drawn = DrawnPages(reports.sources.clock)
        self._routes: Mapping[tuple[str, int], Callable[[Sequence[str], Window], Page]] = {
            ("policies", 0): self._overview,
            ("policies", 2): self._policy,
            ("nodes", 0): self._nodes,
            ("nodes", 1): self._node,
            ("pods", 0): self._pods,
            ("rules", 0): self._rules,
        }
        self._sections = {section.name: section for section in reports.sources.sections}
        self._drawing = Drawing(*(section.templates for section in self._sections.values()))

    async def asset(self, request: Request) -> Response:
        """Answer /assets/<file>."""
        return assets.answer(request.path)

    async def answer(self, request: Request) -> Response:
        """Answer a page."""
        target = Target(request, self._targets)
        if target.wants_events:
            return await self._events(target)
        try:
            page = await self._page(target)
            if target.wants_json:
                async with self._reports.building.hold():
                    response = await self._reports.as_json(page.build, target.scope.namespace)
                return response.with_headers(dict(NEGOTIATED))
            if (recent := self._recent(target)) is not None:
                return recent
            async with self._reports.building.hold():
                return self._recent(target) or await self._draw(target, page)
        except PageError as failure:
            if target.wants_json:
                return responses.error(str(failure), failure.status)
            around = self._around(target, failure.status.phrase, "")
            report = Report(ErrorPage(str(failure)))
            return await self._drawing.draw("error.html", report, around, failure.status)

    def _recent(self, target: Target) -> Response | None:
        """Return a recent drawing of a page that its script fetches again; None if there is none."""
        return self._drawn.answer(target.key, target.seen) if target.seen else None

    async def _draw(self, target: Target, page: Page) -> Response:
        """Draw a page, for its live readers too. Raises PageError."""
        around = self._around(target, page.title, page.section, page.subject)
        drawn = self._drawn.begin(target.key, around["live"])
        pace = Paced(_LIVE if target.seen else _USUAL)
        try:
            drawn.answer = await pace.of(self._drawing.made(page.template, page.build, around))
            drawn.cost = pace.seconds
            if target.seen:
                drawn.readers.add(target.seen)
            return drawn.answer
        finally:
            self._drawn.end(target.key, drawn)

    async def _events(self, target: Target) -> Response:
        """Answer with an event once what a page is about changed, or with none after some seconds; EventSource then asks again.

        While a drawing of the page is recent, those who have it ask again when it is not; others are sent to it.
        """
        try:
            if (past := self._reports.sources.past) is None:
                raise PageError("pages are not live: there is no history (--no-history)")
            position, changed = await past.changed(target.scope, target.seen)
        except PageError as failure:
            return responses.error(str(failure), failure.status)
        wait = _RETRY
        if changed and (drawn := self._drawn.newest(target.key)) is not None:
            changed = target.seen not in drawn.readers
            position = drawn.position if changed else target.seen
            if drawn.answer is not None:
                wait = max(wait, drawn.until - self._reports.sources.clock())
        event = f"event: change\ndata: {position}\n" if changed else ""
        text = f"retry: {1e3 * wait:.0f}\nid: {position}\n{event}\n"
        extra = (*headers.UNCACHED, *NEGOTIATED)
        return Response(HTTPStatus.OK, text.encode(), "text/event-stream; charset=utf-8", extra)

    async def _page(self, target: Target) -> Page:
        """Return the page of a resource. Raises PageError."""
        if len(target.path) > LONGEST_PATH:
            raise PageError("the path is too long for a page")
        (section, names), window = target.resource, target.window
        if target.namespace:
            return self._listed(section, window)._replace(subject=target.namespace)
        if section == "pods" and names:
            return await self._pod("/".join(names), window)
        if section in self._sections and len(names) in {0, 2} and all(names):
            return self._page_of(self._sections[section], names, window)
        route = self._routes.get((section, len(names)))
        if route is None or not all(names):
            raise PageError(f"no page {target.path[:SHOWN]}")
        return route(names, window)

    async def _pod(self, name: str, window: Window) -> Page:
        reports = self._reports.pods
        pod = await reports.find(name)
        return Page("pod.html", "Pod", "pods", lambda: reports.pod(pod, window), name)

    def _overview(self, _names: Sequence[str], window: Window) -> Page:
        few = replace(window, size=_POLICIES)
        return Page("overview.html", "Overview", "", lambda: self._reports.policies.overview(few))

    def _policy(self, names: Sequence[str], window: Window) -> Page:
        key = PolicyKey(*names)
        build = self._reports.policies.policy_page
        return Page("policy.html", "Policy", "policies", lambda: build(key, window), str(key))

    def _nodes(self, _names: Sequence[str], window: Window) -> Page:
        return Page("nodes.html", "Nodes", "nodes", lambda: self._reports.nodes.page(window))

    def _node(self, names: Sequence[str], window: Window) -> Page:
        (name,) = names
        build = self._reports.nodes.node
        return Page("node.html", "Node", "nodes", lambda: build(name, window), name)

    def _pods(self, _names: Sequence[str], window: Window) -> Page:
        return Page("pods.html", "Pods", "pods", lambda: self._reports.pods.page(window))

    def _listed(self, section: str, window: Window) -> Page:
        """Return the list of a section."""
        if section in self._sections:
            return self._page_of(self._sections[section], (), window)
        return self._routes[section, 0]((), window)

    def _page_of(self, section: Section, names: Sequence[str], window: Window) -> Page:
        """Return the page of another feature: its list, or one object."""
        view = section.one("/".join(names), window) if names else section.listed(window)
        return Page(view.template, view.title, section.name, view.build, view.subject)

    def _rules(self, _names: Sequence[str], window: Window) -> Page:
        title = "Rules and metrics"
        return Page("rules.html", title, "rules", lambda: self._reports.policies.rules(window))

    def _around(
        self, target: Target, title: str, section: str, subject: str = ""
    ) -> dict[str, Any]:
        """Return what templates show around a report."""
        sections = [("", "Overview"), ("nodes", "Nodes"), ("pods", "Pods")]
        shown = [section for section in self._sections.values() if section.shown]
        sections += [(section.name, section.title) for section in shown]
        return {
            "root": target.root,
            "title": title,
            "subject": subject,
            "section": section,
            "navigation": [*sections, ("rules", "Rules and metrics")],
            "sections": [section.name for section in shown],
            "notices": self._reports.sources.notices(target.scope.namespace),
            "json": target.as_json,
            "live": past.position_of(target.scope) if (past := self._reports.sources.past) else "",
            "made": rfc3339.seconds(time.time()),
            "replica": self._replica,
            "version": VERSION,
        }
