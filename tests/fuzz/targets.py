"""Every decoder of foreign input as a function of bytes that fails if the decoder misbehaves.

One table for the corpus, Hypothesis and the coverage-guided fuzzer.
"""

import asyncio
import importlib
import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path, PurePath

import msgspec
import numpy as np

from agent.web import config as webconfig
from collectors.interface.sample import CollectorError
from collectors.textfile.formats import promtext
from evaluator.core import preemption, protocol
from evaluator.core.access.user import (
    InvalidTokenError,
    RequestHeaderError,
    UnreviewedError,
    parse_request_header,
)
from evaluator.core.cache.cluster import ClusterCache, decode_node, decode_pod
from evaluator.core.kube import client, connection, resources, transport
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.transport import KubeError
from evaluator.core.kube.watches import decode_policy
from evaluator.core.model import api_status
from evaluator.core.model.names import UNREADABLE
from evaluator.core.model.node_index import NodeIndex, NodeScores
from evaluator.core.model.pod import Pod
from evaluator.core.model.resources import Resource
from evaluator.core.sources import custom_metrics, prometheus_vector
from evaluator.core.sources.agents.authn import TokenAuthenticator
from evaluator.core.sources.agents.stream import StreamProtocol, parse
from evaluator.core.sources.answer import MeasurementTime, SourceError, moment
from evaluator.core.sources.custom_metrics import CustomMetrics
from evaluator.core.sources.prometheus import parse_queries
from evaluator.tools.check import main
from evaluator.tools.check.report import describe
from evaluator.tools.configure_scheduler import configuration, staticpod
from plimsoll import quantity
from plimsoll.durations import duration
from plimsoll.http.chunks import Chunks
from plimsoll.http.parser import RequestParser
from plimsoll.http.types import RejectedRequestError
from tests.fuzz.corpora import FEATURES
from tests.fuzz.http_requests import BOOK
from tests.fuzz.properties import LONGEST, as_json, as_text, documented, fits, is_json
from tests.fuzz.rules import a_pattern, an_expression
from wire import codec

NOW = MeasurementTime(here=500.0, there=1_763_640_000.0)
METRICS = ("health", "load", "memory", "disk_full", "ras_errors")


def extender_args(data):
    with documented(protocol.BadRequestError):
        args = protocol.decode(data)
        assert all(isinstance(name, str) and name for name in args.names)
        assert args.nodes is None or len(args.nodes) == len(args.names)
        failed = dict.fromkeys(args.names[::2], "violating demo: load GreaterThan 3")
        reply = protocol.encode_filter(args, failed)
        answer = b"".join(reply.parts)
        assert reply.size == len(answer)
        nodes = NodeIndex(args.names)
        scores = NodeScores(nodes, np.arange(len(nodes)), np.full(len(nodes), 10))
        ranked = json.loads(protocol.encode_priorities(scores))
        assert [(one["Host"], one["Score"]) for one in ranked] == list(scores.pairs())
        if (given := as_json(data)) is not None:
            _is_what_was_asked(args, given)
            _keeps_what_passes(args, json.loads(answer), failed)


def preemption_args(data):
    with documented(protocol.BadRequestError):
        request = preemption.decode(data)
        assert all(isinstance(name, str) and name for name in request.args.names)
        left_out = set(request.args.names[::2])
        answer = json.loads(preemption.encode(request.victims, left_out))["NodeNameToMetaVictims"]
        assert list(answer) == [name for name in request.args.names if name not in left_out]
        for name, found in answer.items():
            assert [pod["UID"] for pod in found["Pods"]] == request.victims[name].uids


def _is_what_was_asked(args, given):
    """The standard library's decoder agrees, if keys are spelled as Go spells them."""
    if given.get("Pod") is None or (given.get("Nodes") is None and given.get("NodeNames") is None):
        return
    meta = given["Pod"].get("metadata", {})
    assert args.pod == meta.get("name", "")
    assert args.namespace == meta.get("namespace", "")
    assert args.labels == (meta.get("labels") or {})
    if given.get("Nodes") is None:
        assert list(args.names) == given["NodeNames"]
    else:
        items = given["Nodes"].get("items") or []
        assert list(args.names) == [item["metadata"]["name"] for item in items]
        assert [json.loads(bytes(node)) for node in args.nodes] == items


def _keeps_what_passes(args, answer, failed):
    passing = [name for name in args.names if name not in failed]
    assert answer["NodeNames"] == passing
    assert answer["FailedNodes"] == failed
    if args.nodes is None:
        assert answer["Nodes"] is None
    else:
        kept = [
            json.loads(bytes(node))
            for name, node in zip(args.names, args.nodes, strict=True)
            if name not in failed
        ]
        assert answer["Nodes"]["items"] == kept


def a_pod_to_place(data):
    """As scorers decode it: from a request, with any container requests."""
    with documented(protocol.BadRequestError):
        found = protocol.pod_view(protocol.decode(data))
        assert set(found.requests) <= set(Resource)
        assert all(math.isfinite(value) and value >= 0 for value in found.requests.values())
        assert all(isinstance(word, str) for word in (found.name, found.uid, found.kind))


def a_quantity(data):
    with documented(ValueError):
        assert math.isfinite(quantity.parse(as_text(data)))


def a_duration(data):
    with documented(ValueError):
        seconds = duration(as_text(data))
        assert math.isfinite(seconds)
        assert seconds >= 0


def a_policy(data):
    """`data` is the spec, of any shape: the CRD may lack validation."""
    if not is_json(data):
        return
    raw = b'{"metadata":{"name":"demo","namespace":"default","generation":1},"spec":%s}' % data
    _policy(decode_policy(msgspec.Raw(raw)))


def _policy(found):
    for problem in found.problems:
        fits(problem)
    for line in describe(found):
        assert line.isprintable()
    for strategy in found.strategies.values():
        for rule in strategy.rules:
            fits(str(rule))
            assert math.isfinite(rule.target)
            assert math.isfinite(rule.options.for_seconds + rule.options.clear_after)


def a_manifest(data):
    for found in (one.findings for one in main.check_text("a.yaml", as_text(data))):
        for line in found.lines():
            assert line.isprintable()
            assert len(line) <= LONGEST or line.strip() in map(str.strip, found.meanings)


def a_report(data):
    """As the first full report, from a known and an unknown agent."""
    for known in (False, True):
        talk = StreamProtocol("node-a")
        talk.subscribe(1, METRICS)
        with documented(codec.MalformedReportError):
            report = parse(data)
            said = talk.decode(report, known=known)
            named = [*said.values, *said.several, *said.absent, *said.unread]
            assert len(named) == len(set(named))
            assert set(named) <= set(METRICS)
            assert not report.full or set(named) == set(METRICS)
            assert all(samples >= 2 for samples in said.several.values())


def metric_values(data):
    with documented(SourceError):
        _readings(custom_metrics.parse_list(data, NOW))


def a_vector(data):
    assert isinstance(prometheus_vector.error_message(data), str)
    with documented(SourceError):
        _readings(prometheus_vector.parse(data, "health", lambda labels: labels.get("node"), NOW))


def _readings(answer):
    assert answer.readings
    for reading in answer.readings.values():
        assert reading.samples >= 1
        assert reading.samples == 1 or math.isnan(reading.value)
        assert reading.at <= NOW.here
    for flaw in answer.flaws:
        fits(flaw)


def a_date(data):
    found = moment(as_text(data), here=500.0, wall=7.0)
    assert found.here == 500.0
    assert math.isfinite(found.there)


def an_api_group(data):
    """The API server's responses about the custom metrics group, and about a metric."""

    class Api:
        async def read_group(self, _group):
            return client._decode(data, dict, "GET /apis/custom.metrics.k8s.io")

        async def get_raw(self, _path, largest):
            return data, ""

    with documented(SourceError):
        asyncio.run(CustomMetrics(Api()).fetch("health"))


def a_refusal(data):
    said = api_status.read(data, as_text(data))
    fits(str(KubeError(422, f"PATCH /x: 422 {said.message}", causes=said.causes)))
    assert said.retry_after is None or math.isfinite(said.retry_after)


def a_list(data):
    with documented(KubeError):
        page = client._decode(data, resources.ObjectList, "GET /api/v1/nodes")
        for item in page.items or ():
            an_object(bytes(item))


def an_object(data):
    """A node, a pod and a policy, as the reflector decodes them: invalid ones are skipped."""
    with documented(*UNREADABLE):
        node = decode_node(data)
        assert set(node.node_labels.ours) <= set(node.node_labels.labels)
        assert not node.older_than(node)
        hash(str(node.placement))
    with documented(*UNREADABLE):
        pod = decode_pod(data)
        assert not (pod.running and pod.waiting)
        assert isinstance(pod.unschedulable_because, str)


def an_event(data):
    cluster = ClusterCache()
    for decode, sink in ((decode_node, cluster.nodes), (decode_pod, cluster.pods)):
        with documented(KubeError):
            watcher = Reflector(None, resources.NODES, decode, sink)
            assert isinstance(watcher._take(data), str)


def lines(data):
    """The lines do not depend on how the input is split."""

    class Content:
        async def iter_any(self):
            size = 1 + len(data) % 7
            for at in range(0, len(data), size):
                yield data[at : at + size]

    class Response:
        content = Content()

        def close(self):
            pass

    async def read():
        return [line async for line in transport.lines(Response(), "watch of nodes")]

    assert asyncio.run(read()) == [line for line in data.split(b"\n") if line.strip()]


def a_token_review(data):
    class Authority:
        async def review_token(self, _token, _audience):
            return client._decode(data, api_status.TokenReviewed, "POST /tokenreviews").status

        async def get_pod(self, _namespace, _name):
            return client._decode(data, Pod, "GET /pods/agent")

    reviewer = TokenAuthenticator(Authority(), audience="plimsoll", account="telemetry/agent")
    with documented(UnreviewedError, InvalidTokenError):
        assert asyncio.run(reviewer.node_of("a-token"))


def a_front_proxy(data):
    """The ConfigMap is data up to the first empty line, the headers of a request the rest."""
    config, _, head = data.partition(b"\n\n")
    with documented(RequestHeaderError, RejectedRequestError, msgspec.DecodeError, UnicodeError):
        found = parse_request_header(msgspec.json.decode(config, type=dict[str, str]))
        received = RequestParser(10_000).head(b"GET / HTTP/1.1\r\nHost: x\r\n" + head)
        if found and received:
            user = found.user(received[0])
            assert user is None or user.name


def a_kubeconfig(data):
    """Nothing executes credential plugins here: fields that could name one are ignored."""
    if b"xec" in data or b"auth-provider" in data or b"\\" in data:
        return
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        with documented(connection.ConfigError):
            settings = asyncio.run(connection._settings(file.name))
            assert settings.host


def some_queries(data):
    with documented(ValueError):
        for metric, query in parse_queries(as_text(data)).items():
            assert metric
            assert query.strip()


def a_web_config(data):
    with documented(webconfig.WebConfigError):
        found = webconfig.parse(as_text(data), PurePath("/etc/plimsoll"))
        assert found.rate_limit.burst >= 0
        assert math.isfinite(found.rate_limit.seconds)


def a_request(data):
    """A request in parts: its header, and its body if chunked."""
    reading = RequestParser(header_bytes=4096)
    pieces = [data[at : at + 700] for at in range(0, len(data), 700)]
    try:
        received = None
        while received is None and pieces:
            received = reading.head(pieces.pop(0))
        if received is None:
            return
        request, framing = received
        assert request.method.isascii()
        assert framing.length is None or framing.length >= 0
        chunks = Chunks()
        for piece in (reading.rest, *pieces):
            if framing.length is None and chunks.rest is None:
                assert sum(map(len, chunks.parts(piece))) <= len(piece)
    except RejectedRequestError as refused:
        _by_the_book(refused)


def _by_the_book(refused):
    fits(str(refused))
    assert refused.status in BOOK


def a_scheduler_configuration(data):
    given = as_json(data, only=object)
    with documented(configuration.ConfigurationError):
        made = configuration.with_extender(given, configuration.ExtenderEntry("http://127.0.0.1:1"))
        assert made["extenders"][-1]["urlPrefix"] == "http://127.0.0.1:1"
    if isinstance(given, dict) and all(isinstance(value, str) for value in given.values()):
        with documented(configuration.ConfigurationError):
            configuration.from_flags(given)


def a_static_pod(data):
    text = as_text(data)
    folder, config = "/etc/plimsoll", "/etc/plimsoll/kube-scheduler-1.yaml"
    with documented(staticpod.ManifestError):
        staticpod.flags(text)
        staticpod.sees_services(text)
        assert staticpod.restored(staticpod.configured(text, folder, config), folder) == (
            staticpod.restored(text, folder)
        )


def a_text_file(data):
    with documented(CollectorError):
        for family in promtext.parse(data):
            assert family.samples
            assert len({promtext.identity(one) for one in family.samples}) == len(family.samples)


_TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "date": a_date,
    "duration": a_duration,
    "event": an_event,
    "expression": an_expression,
    "extender": extender_args,
    "group": an_api_group,
    "kubeconfig": a_kubeconfig,
    "lines": lines,
    "list": a_list,
    "manifest": a_manifest,
    "metricvalues": metric_values,
    "pattern": a_pattern,
    "podtoplace": a_pod_to_place,
    "policy": a_policy,
    "preemption": preemption_args,
    "quantity": a_quantity,
    "queries": some_queries,
    "refusal": a_refusal,
    "report": a_report,
    "request": a_request,
    "scheduler": a_scheduler_configuration,
    "staticpod": a_static_pod,
    "textfile": a_text_file,
    "tokenreview": a_token_review,
    "frontproxy": a_front_proxy,
    "vector": a_vector,
    "webconfig": a_web_config,
}


def _of_features():
    """Yield the tables of features."""
    for path in sorted(FEATURES.glob("*/fuzz.py")):
        yield importlib.import_module(f"tests.evaluator.features.{path.parent.name}.fuzz").TARGETS


def _each(functions, data):
    for function in functions:
        function(data)


def _merged(*tables):
    """All targets; for a name in several tables, one that runs each."""
    found = defaultdict(list)
    for table in tables:
        for name, function in table.items():
            found[name].append(function)
    return {name: partial(_each, functions) for name, functions in sorted(found.items())}


TARGETS: Mapping[str, Callable[[bytes], None]] = _merged(_TARGETS, *_of_features())
"""By the name of its corpus folder."""
