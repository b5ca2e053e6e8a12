"""The pages for a browser: routes by path, each as HTML, or as JSON with the suffix `.json` or by `Accept`."""

import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from evaluator.core.model.names import PolicyKey
from evaluator.features.pages import as_json
from evaluator.features.pages.drawing import NEGOTIATED, draw
from evaluator.features.pages.explain.window import Window
from evaluator.features.pages.report import LONGEST_PATH, SHOWN, PageError, Report
from evaluator.features.pages.reports import Reports
from evaluator.features.pages.targets import Target
from plimsoll import VERSION, rfc3339
from plimsoll.html import assets
from plimsoll.http.types import Request, Response

_POLICIES = 50
"""Policies on one page: each has a strip over all nodes."""

Build = Callable[[], Awaitable[Report]]


class Page(NamedTuple):
    """A page: its template, title and section of the navigation, what builds its report, and the object that it is about."""

    template: str
    title: str
    section: str
    build: Build
    subject: str = ""


class BrowserPages:
    """The pages below `/`. Links between them are relative, so they work below any prefix that a proxy takes off."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._replica = socket.gethostname()
        self._routes: Mapping[tuple[str, int], Callable[[Sequence[str], Window], Page]] = {
            ("policies", 0): self._overview,
            ("policies", 2): self._policy,
            ("nodes", 0): self._nodes,
            ("nodes", 1): self._node,
            ("pods", 0): self._pods,
            ("gangs", 0): self._gangs,
            ("gangs", 2): self._gang,
            ("rules", 0): self._rules,
        }

    async def asset(self, request: Request) -> Response:
        """Answer /assets/<file>."""
        return assets.answer(request.path)

    async def answer(self, request: Request) -> Response:
        """Answer a page."""
        target = Target(request)
        try:
            page = await self._page(target)
            async with self._reports.building.hold():
                report = await page.build()
                if target.wants_json:
                    response = await as_json.page(report)
                    return response.with_headers(dict(NEGOTIATED))
                around = self._around(target, page.title, page.section, page.subject)
                return await draw(page.template, report, around)
        except PageError as failure:
            if target.wants_json:
                return as_json.error(str(failure), failure.status)
            around = self._around(target, failure.status.phrase, "")
            report = Report({"message": str(failure)})
            return await draw("error.html", report, around, failure.status)

    async def _page(self, target: Target) -> Page:
        """Return the page of a resource. Raises PageError."""
        if len(target.path) > LONGEST_PATH:
            raise PageError("the path is too long for a page")
        (section, names), window = target.resource, target.window
        if namespace := target.resource.namespace:
            return self._routes[section, 0]((), window)._replace(subject=namespace)
        if section == "pods" and names:
            return await self._pod("/".join(names), window)
        route = self._routes.get((section, len(names)))
        if route is None or not all(names):
            raise PageError(f"no page {target.path[:SHOWN]}")
        return route(names, window)

    async def _pod(self, name: str, window: Window) -> Page:
        reports = self._reports.pods
        found = await reports.find(name)
        return Page("pod.html", "Pod", "pods", lambda: reports.pod(found, window), name)

    def _overview(self, _names: Sequence[str], window: Window) -> Page:
        few = replace(window, size=_POLICIES)
        return Page("overview.html", "Policies", "", lambda: self._reports.policies.overview(few))

    def _policy(self, names: Sequence[str], window: Window) -> Page:
        key = PolicyKey(*names)
        build = self._reports.policies.policy_page
        return Page("policy.html", "Policy", "policies", lambda: build(key, window), str(key))

    def _nodes(self, _names: Sequence[str], window: Window) -> Page:
        return Page("nodes.html", "Nodes", "nodes", lambda: self._reports.nodes.page(window))

    def _node(self, names: Sequence[str], _window: Window) -> Page:
        (name,) = names
        return Page("node.html", "Node", "nodes", lambda: self._reports.nodes.node(name), name)

    def _pods(self, _names: Sequence[str], window: Window) -> Page:
        return Page("pods.html", "Pods", "pods", lambda: self._reports.pods.page(window))

    def _gangs(self, _names: Sequence[str], window: Window) -> Page:
        return Page("gangs.html", "Gangs", "gangs", lambda: self._reports.gangs.queue(window))

    def _gang(self, names: Sequence[str], window: Window) -> Page:
        name = "/".join(names)
        build = self._reports.gangs.gang
        return Page("gang.html", "Gang", "gangs", lambda: build(name, window), name)

    def _rules(self, _names: Sequence[str], window: Window) -> Page:
        title = "Rules and metrics"
        return Page("rules.html", title, "rules", lambda: self._reports.policies.rules(window))

    def _around(
        self, target: Target, title: str, section: str, subject: str = ""
    ) -> dict[str, Any]:
        """Return what templates show around a report."""
        sections = [("", "Policies"), ("nodes", "Nodes"), ("pods", "Pods")]
        sections += [("gangs", "Gangs")] if self._reports.has_gangs else []
        return {
            "root": target.root,
            "title": title,
            "subject": subject,
            "section": section,
            "navigation": [*sections, ("rules", "Rules and metrics")],
            "gangs": self._reports.has_gangs,
            "json": target.as_json,
            "made": rfc3339.seconds(time.time()),
            "replica": self._replica,
            "version": VERSION,
        }
