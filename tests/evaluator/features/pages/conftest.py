"""An ops server with the pages of some policies, set by hand, and a reader of HTML."""

from html.parser import HTMLParser
from urllib.parse import parse_qs

import pytest

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.http.ops import OpsServer
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeStatus
from evaluator.core.model.pod import Pod, PodMeta, PodSpec, PodStatus
from evaluator.core.readings.reported import FailingRuleIndex, NodeCauses
from evaluator.core.readings.store import Store
from evaluator.core.signals import Decided, on
from evaluator.features.pages.feature import routes
from evaluator.features.pages.handlers import Reports
from evaluator.features.pages.sources import PageSources, ViolationTimes
from evaluator.features.pages.targets import Targets
from plimsoll.http.types import Parts, Request
from wire import codec, telemetry_pb2
from wire.codec import Delta

START = 1000.0
_VOID = {"meta", "link", "input", "br"}


class Html(HTMLParser):
    """The elements of a page. Fails on elements that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.headings = [], [], []
        self._open = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append(data.strip())
        if "h1" in self._open:
            self.headings.append(data)

    @property
    def text(self):
        return " ".join(self.texts)

    @property
    def heading(self):
        return "".join(self.headings).strip()

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


class PagesOfPolicies:
    """The ops server of an evaluator that decided on some policies."""

    def __init__(self, *, parts=(), **sources):
        """`parts`: pages and parts of pages of other features."""
        self.now = START
        self.cluster = ClusterCache()
        self.store = Store(stale_after=30.0, started=START)
        self.failing = FailingRuleIndex(self.store.reported_at, stale_after=30.0)
        self.causes = NodeCauses()
        metrics, times = Metrics(), ViolationTimes()
        self.decider = DecisionLoop(
            self.cluster,
            self.store,
            Subscriptions(),
            metrics,
            clock=lambda: self.now,
        )
        self.cluster.signals.connect([on(Decided, times.update)])
        self.parts = list(parts)
        given = PageSources(
            self.decider,
            self.cluster,
            clock=lambda: self.now,
            since=times.since,
            readings_from=("agents",),
            failing_rules=self.failing,
            causes=self.causes,
            parts=lambda: self.parts,
            **sources,
        )
        self.targets = Targets(given.sections)
        pages = routes(Reports(given), self.targets)
        self.server = OpsServer(self.decider, metrics, pages=pages)

    def know(self, *policies, nodes=("node-a", "node-b"), pods=()):
        """Replace policies and nodes (names or objects); pods are given as (namespace, name, policy)."""
        objects = [node if isinstance(node, Node) else ready(node) for node in nodes]
        self.cluster.policies.replace(list(policies))
        self.cluster.nodes.replace(objects)
        self.cluster.pods.replace([waiting_pod(*pod) for pod in pods])
        self.decider.evaluate()

    def report(self, reports):
        """Report deltas by node, and decide again."""
        for node, delta in reports.items():
            self.store.report(node, delta, self.now)
        self.decider.evaluate()

    def report_failing(self, node, *rules, more=0):
        """Report failing rules of a node, each as the fields of the protocol."""
        report = telemetry_pb2.Report(full=True)
        report.failing_rules.more = more
        for fields in rules:
            report.failing_rules.rules.add(**fields)
        self.failing.report(node, codec.decode(report, ()).failing, self.now)

    async def get(self, target, accept="text/html", method="GET"):
        """Return the response to a request, as the server would parse it."""
        path, _, query = target.partition("?")
        values = parse_qs(query, keep_blank_values=True)
        request = Request(method, path, values, {"accept": accept})
        return await self.server.answer(request)

    async def html(self, target):
        """Return a page as parsed HTML."""
        response = await self.get(target)
        assert response.status == 200, body(response)
        assert response.content_type == "text/html; charset=utf-8"
        return Html(body(response))


def body(response):
    """Return the text of a response."""
    made = response.body
    return b"".join(made.parts if isinstance(made, Parts) else [made]).decode()


def ready(name):
    return Node(NodeMeta(name=name), status=NodeStatus((NodeCondition("Ready", "True"),)))


def waiting_pod(namespace, name, policy):
    meta = PodMeta(name=name, namespace=namespace, labels={"telemetry-policy": policy})
    return Pod(meta, PodSpec(requests_extender=True), PodStatus("Pending"))


@pytest.fixture
def pages():
    return PagesOfPolicies()


@pytest.fixture
def demo(parsed, rule):
    return parsed(
        "demo",
        dontschedule={"rules": [rule("m GreaterThan 5")], "for": "5s", "clearAfter": "20s"},
        deschedule=[rule("m GreaterThan 9")],
        scheduleonmetric=[rule("m LessThan 0")],
        labeling=[rule("k Equals 1", "hot=yes")],
    )


def filled(pages, demo):
    """Decide on four nodes: violated, pending, clear, and not reported."""
    pages.know(demo, nodes=["a", "b", "c", "d"], pods=[("ns", "web", "demo")])
    pages.report({"a": Delta({"m": 10.0, "k": 1.0}), "b": Delta({"m": 6.0, "k": 0.0})})
    pages.report({"c": Delta({"m": 0.0, "k": 0.0})})
    pages.now += 2.5
    return pages
