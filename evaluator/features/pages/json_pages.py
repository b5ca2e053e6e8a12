"""The pages at /explain: policies, pods, nodes and gangs as JSON, each with all nodes on one page."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from evaluator.core.model.names import PolicyKey
from evaluator.features.pages import as_json
from evaluator.features.pages.report import LONGEST_PATH, PageError, Report
from evaluator.features.pages.reports import Reports
from evaluator.features.pages.targets import Resource, explained
from plimsoll.http.types import Request, Response


class ExplainPages:
    """/explain, /explain/<namespace>, /explain/<namespace>/<policy>, and /explain?pod=, ?node=, ?nodes=, ?metric= and ?gang=.

    Without a value, `?gang=` shows all waiting gangs.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    async def answer(self, request: Request) -> Response:
        """Answer /explain and all paths below it."""
        if len(request.path) > LONGEST_PATH:
            return as_json.error("the name is too long for a policy")
        resource = explained(request)
        if resource.section == "pods":
            return await self._pod("/".join(resource.names))
        return await self._answer(lambda: self._report(resource, request.query))

    def _report(self, resource: Resource, query: Mapping[str, Sequence[str]]) -> Awaitable[Report]:
        """Return the report of what a request shows, other than a pod."""
        policies, nodes, gangs = self._reports.policies, self._reports.nodes, self._reports.gangs
        match resource:
            case Resource("gangs", names):
                return gangs.gang("/".join(names)) if names else gangs.queue()
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

    async def _pod(self, name: str) -> Response:
        pods = self._reports.pods
        try:
            found = await pods.find(name)
        except PageError as failure:
            return as_json.error(str(failure), failure.status)
        return await self._answer(lambda: pods.pod(found))

    async def _answer(self, build: Callable[[], Awaitable[Report]]) -> Response:
        async with self._reports.building.hold():
            try:
                return await as_json.page(await build())
            except PageError as failure:
                return as_json.error(str(failure), failure.status)

    def _see(self) -> dict[str, str]:
        pages = {
            "namespace": "/explain/<namespace>",
            "policy": "/explain/<namespace>/<policy>",
            "pod": "/explain?pod=<namespace>/<name>",
            "nodes": "/explain?nodes",
            "node": "/explain?node=<name>",
            "metric": "/explain?metric=<name>",
        }
        if self._reports.has_gangs:
            pages |= {"gangs": "/explain?gang=", "gang": "/explain?gang=<namespace>/<podGroup>"}
        return pages
