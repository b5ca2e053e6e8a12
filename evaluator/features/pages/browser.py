"""The pages for a browser: routes by path, each as HTML, or as JSON with the suffix `.json` or by `Accept`."""

import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

from evaluator.core.http import responses
from evaluator.core.model.names import PolicyKey
from evaluator.core.pages import LONGEST_PATH, SHOWN, PageError, Report, Section
from evaluator.core.report import Window
from evaluator.features.pages import as_json
from evaluator.features.pages.drawing import NEGOTIATED, Drawing
from evaluator.features.pages.reports import Reports
from plimsoll import VERSION, rfc3339
from plimsoll.html import assets
from plimsoll.html.negotiation import prefers_json
from plimsoll.html.templates import root_of, segment
from plimsoll.http.types import Request, Response, preference

_POLICIES = 50
"""Policies on one page: each has a strip over all nodes."""
_LONGEST_SEARCH = 253
_MOST_PAGES = 10**6
_ROOT_AS_JSON = "index"
_SUFFIX = ".json"

_SECTIONS = ("policies", "nodes", "pods", "rules")
_NAMESPACED = frozenset({"policies", "pods"})


def paths(sections: Iterable[Section] = ()) -> list[str]:
    """Return the paths to route here, by prefix if they end with a slash. `sections`: those of other features."""
    names = (*_SECTIONS, *(section.name for section in sections))
    below = [f"/{name}{end}" for name in names for end in ("", "/", _SUFFIX)]
    return ["/", f"/{_ROOT_AS_JSON}{_SUFFIX}", *below]


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
            ("", 0): self._overview,
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
        path, wants_json = request.path.rstrip("/") or "/", False
        if path.endswith(_SUFFIX):
            path, wants_json = path.removesuffix(_SUFFIX), True
            path = "/" if path == f"/{_ROOT_AS_JSON}" else path
        else:
            wants_json = prefers_json(preference(request.headers, "accept"))
        target = _Target(request, path)
        try:
            page = await self._page(target)
            async with self._reports.building.hold():
                report = await page.build()
                if wants_json:
                    response = await as_json.page(report)
                    return response.with_headers(dict(NEGOTIATED))
                around = self._around(target, page.title, page.section, page.subject)
                return await self._drawing.draw(page.template, report, around)
        except PageError as failure:
            if wants_json:
                return responses.error(str(failure), failure.status)
            around = self._around(target, failure.status.phrase, "")
            report = Report({"message": str(failure)})
            return await self._drawing.draw("error.html", report, around, failure.status)

    async def _page(self, target: "_Target") -> Page:
        """Return the page of a path. Raises PageError."""
        if len(target.path) > LONGEST_PATH:
            raise PageError("the path is too long for a page")
        section, names, window = target.section, target.names, target.window
        if section == "pods" and (name := target.pod):
            found = await self._reports.pods.find(name)
            return Page(
                "pod.html", "Pod", section, lambda: self._reports.pods.pod(found, window), name
            )
        namespaced = section in _NAMESPACED or section in self._sections
        if namespaced and len(names) == 1:  # the list of a namespace
            window, names = replace(window, search=window.search or f"{names[0]}/"), []
        if section in self._sections and len(names) in (0, 2) and all(names):
            return self._page_of(self._sections[section], names, window)
        route = self._routes.get((section, len(names)))
        if route is None or not all(names):
            raise PageError(f"no page {target.path[:SHOWN]}")
        return route(names, window)

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

    def _page_of(self, section: Section, names: Sequence[str], window: Window) -> Page:
        """Return the page of another feature: its list, or one object."""
        view = section.one("/".join(names), window) if names else section.listed(window)
        return Page(view.template, view.title, section.name, view.build, view.subject)

    def _rules(self, _names: Sequence[str], window: Window) -> Page:
        title = "Rules and metrics"
        return Page("rules.html", title, "rules", lambda: self._reports.policies.rules(window))

    def _around(
        self, target: "_Target", title: str, section: str, subject: str = ""
    ) -> dict[str, Any]:
        """Return what templates show around a report."""
        sections = [("", "Policies"), ("nodes", "Nodes"), ("pods", "Pods")]
        shown = [section for section in self._sections.values() if section.shown]
        sections += [(section.name, section.title) for section in shown]
        return {
            "root": target.root,
            "title": title,
            "subject": subject,
            "section": section,
            "navigation": [*sections, ("rules", "Rules and metrics")],
            "sections": [section.name for section in shown],
            "json": target.as_json,
            "made": rfc3339.seconds(time.time()),
            "replica": self._replica,
            "version": VERSION,
        }


class _Target:
    """What a request asks for; `path` is without the suffix of JSON."""

    def __init__(self, request: Request, path: str) -> None:
        self.path = path
        self.root = root_of(request.path)
        self._query = request.query
        section, *names = path.removeprefix("/").split("/")
        self.section, self.names = section, [unquote(name) for name in names]
        self.window = Window(
            self._last("search")[:_LONGEST_SEARCH], self._last("state")[:20], self._number("page")
        )

    @property
    def pod(self) -> str:
        """The pod <namespace>/<name> in the path or the query; empty if there is none."""
        return "/".join(self.names) if len(self.names) == 2 else self._last("pod")

    @property
    def as_json(self) -> str:
        """The link to the same page as JSON, relative to `/`."""
        names = "/".join(segment(name) for name in (self.section or _ROOT_AS_JSON, *self.names))
        given = {name: values[-1] for name, values in self._query.items()}
        query: dict[str, str] = {
            name: given[name] for name in ("search", "state", "page", "pod") if name in given
        }
        return f"{names}{_SUFFIX}" + (f"?{urlencode(query)}" if query else "")

    def _last(self, name: str) -> str:
        return self._query.get(name, ("",))[-1]

    def _number(self, name: str) -> int:
        text = self._last(name)
        valid = text.isascii() and text.isdigit() and len(text) < len(str(_MOST_PAGES))
        return max(1, int(text)) if valid else 1
