"""The pages at /explain: policies, pods, nodes and gangs as JSON, each with all nodes on one page."""

from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import unquote

from evaluator.core.http import responses
from evaluator.core.model.names import PolicyKey
from evaluator.core.pages import LONGEST_PATH, PageError, Report
from evaluator.features.pages import as_json
from evaluator.features.pages.reports import Reports
from plimsoll.http.types import Request, Response


class ExplainPages:
    """/explain, /explain/<namespace>, /explain/<namespace>/<policy>, and /explain?pod=, ?node=, ?nodes=, ?metric= and ?gang=.

    Without a value, `?gang=` shows all waiting gangs.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    async def root(self, request: Request) -> Response:
        """Answer /explain."""
        query, reports = request.query, self._reports
        if pods := query.get("pod"):
            return await self._pod(pods[-1])
        for section in reports.sources.sections:
            if names := query.get(section.query):
                return await self._answer(partial(section.explained, names[-1]))
        if nodes := query.get("node"):
            return await self._answer(lambda: reports.nodes.node(nodes[-1]))
        if metrics := query.get("metric"):
            return await self._answer(lambda: reports.policies.metrics(metrics))
        if "nodes" in query:
            return await self._answer(reports.nodes.listed)
        return await self._answer(lambda: reports.policies.listed("", self._see()))

    async def below(self, request: Request) -> Response:
        """Answer /explain/<namespace> and /explain/<namespace>/<policy>."""
        if len(request.path) > LONGEST_PATH:
            return responses.error("the name is too long for a policy")
        namespace, name = _names(request.path)
        policies = self._reports.policies
        if not namespace and not name:
            return await self.root(request)
        if not name:
            return await self._answer(lambda: policies.listed(namespace, {}))
        node = request.query.get("node", ("",))[-1]
        return await self._answer(lambda: policies.policy(PolicyKey(namespace, name), node))

    async def _pod(self, name: str) -> Response:
        pods = self._reports.pods
        try:
            found = await pods.find(name)
        except PageError as failure:
            return responses.error(str(failure), failure.status)
        return await self._answer(lambda: pods.pod(found))

    async def _answer(self, build: Callable[[], Awaitable[Report]]) -> Response:
        async with self._reports.building.hold():
            try:
                return await as_json.page(await build())
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


def _names(path: str) -> tuple[str, str]:
    """The namespace and name in /explain/<namespace>/<name>."""
    namespace, _, name = path.removeprefix("/explain/").partition("/")
    return unquote(namespace), unquote(name)
