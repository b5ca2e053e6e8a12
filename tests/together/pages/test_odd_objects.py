"""Nodes, policies and pods with fields that an API server would let through, or nearly: no page fails, and the others are shown."""

import contextlib
import json
from functools import partial
from urllib.parse import parse_qs

import pytest

from evaluator.core.cache.cluster import decode_node, decode_pod
from evaluator.core.kube.watches import decode_policy
from evaluator.core.model import pod_record
from evaluator.core.model.names import UNREADABLE
from evaluator.core.signals import Answered, ProblemsReported
from evaluator.features.evictions.report import EvictionReport
from evaluator.features.gangs.core.labels import membership
from evaluator.features.pages.guarded import LEFT_OUT
from evaluator.features.pages.policies import PolicyReports
from evaluator.features.registry import VOCABULARY
from plimsoll.http.types import Parts, Request
from tests.together.running import RunningEvaluator, every_feature
from wire.problems import ProblemCondition, Problems

pytestmark = pytest.mark.features(
    "labels",
    "memory",
    "node_actions",
    "problems",
    "evictions",
    "requeue",
    "status",
    "scorers",
    "gangs",
    "custom_metrics",
    "history",
    "pages",
    "stop",
    "extender",
)

TIMES = [
    "9999-12-31T23:59:59-23:00",
    "0001-01-01T00:00:00+23:00",
    "9999-12-31T23:59:59Z",
    "0000-00-00T00:00:00Z",
    "2026-02-30T25:61:61Z",
    "-1",
    "",
]
TEXTS = [
    "\x00\x1b[31m",
    "\u202e\u2028",
    "\ud800",
    "x" * 70_000,
    "",
    "<script>&",
    "{{ 7 * 7 }}",
    "%s%n",
    "null",
    "é" * 9,
]
NUMBERS = [2**63, -(2**63), 2**64, 1e308, -1e308, 5e-324, 10**400, 0]
QUANTITIES = [
    "9" * 400,
    "1e999",
    "-1",
    "1Ei",
    "",
    "NaN",
    "9223372036854775807Ei",
    "0.000000000001n",
]


def scored(time):
    """The annotation of a memory."""
    return json.dumps({"systemUUID": "", "scores": {"shop/even": {"score": 1, "at": time}}})


def odd_node(name, number):
    pick = partial(picked, number)
    text, time = pick(TEXTS), pick(TIMES)
    return {
        "metadata": {
            "name": name,
            "uid": pick(TEXTS) or "u",
            "resourceVersion": pick(["1", "", "x", "9" * 30]),
            "labels": {"plain": text, text[:50]: "x", "even": "violating"},
            "annotations": {
                "plimsoll.io/memory": pick([text, scored(time)]),
                f"plimsoll.io/ack.{pick(['KernelDeadlock', text[:99]])}": f"{time} {text}",
                "load5m": text,
            },
            "creationTimestamp": time,
            "managedFields": [{"manager": text, "operation": text, "time": time, "fieldsV1": {"f:metadata": {"f:annotations": {"f:plimsoll.io/ack.KernelDeadlock": {}}, "f:labels": {"f:even": {}}}, "f:status": {"f:conditions": {text: {}, 'k:{"type":"Sick"}': {}}}}}],
        },
        "spec": {"unschedulable": bool(number % 2), "taints": [{"key": text, "value": text, "effect": pick(["NoSchedule", text])}, {"key": "plimsoll.io/shop.even", "value": text, "effect": text}]},
        "status": {
            "conditions": [
                {"type": "Ready", "status": pick(["True", text]), "lastHeartbeatTime": time, "lastTransitionTime": pick(TIMES)},
                {"type": "Sick", "status": "True", "reason": text, "message": text, "lastTransitionTime": time},
                {"type": text, "status": text, "lastHeartbeatTime": time},
            ],
            "addresses": [{"type": "Hostname", "address": text}, {"type": text, "address": text}],
            "allocatable": {"cpu": pick(QUANTITIES), "memory": pick(QUANTITIES), "pods": pick(QUANTITIES), text[:60]: pick(QUANTITIES)},
            "nodeInfo": {"systemUUID": text},
        },
    }  # fmt: skip


def odd_policy(name, number):
    pick = partial(picked, number)
    text, time = pick(TEXTS), pick(TIMES)
    rule = {
        "metricname": pick(["node_condition_Sick", text[:99]]),
        "operator": pick(["Equals", "GreaterThan", text]),
        "target": pick(NUMBERS),
        "labels": [f"{text[:50]}=x"],
    }
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"u{number}", "generation": pick([1, 2**62]), "annotations": {"plimsoll.io/memory": pick(["30d", text]), "plimsoll.io/actions": pick(["label,taint,condition", text]), "plimsoll.io/enforcement": pick(["observe", text]), f"plimsoll.io/{text[:50]}": text}},
        "spec": {"strategies": {"dontschedule": {"rules": [rule]}, "deschedule": {"rules": [rule, pick([rule, text, None])]}, "labeling": {"rules": [rule]}, "scheduleonmetric": {"rules": [rule]}, text[:50]: text}},
        "status": {"conditions": [{"type": text, "status": text, "message": text, "lastTransitionTime": time}, pick([text, 7, None, {}])], "pods": pick(NUMBERS), text[:50]: {"a": [text]}},
    }  # fmt: skip


def odd_pod(name, number):
    pick = partial(picked, number)
    text, time = pick(TEXTS), pick(TIMES)
    reason = "0/3 nodes are available: 3 violating even: node_condition_Sick Equals 1. "
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{number}", "creationTimestamp": time, "labels": {"telemetry-policy": pick(["even", text[:63]]), "podGroup": text[:63], "minAvailable": pick(["2", text[:63]]), "groupPriority": pick(["9" * 30, text[:63]])}, "annotations": {"plimsoll.io/requeued-at": time, "plimsoll.io/admitted-at": time, "plimsoll.io/last-nudge": time}, "ownerReferences": [{"kind": text, "name": text, "uid": text, "apiVersion": text, "controller": True}], "deletionTimestamp": pick([None, time])},
        "spec": {"nodeName": pick(["", "node-even", text[:60]]), "priority": pick([2**31 - 1, -(2**31)]), "schedulerName": text, "schedulingGates": pick([[], [{"name": "plimsoll.io/gang"}, {"name": text}]]), "containers": [{"name": text, "image": text, "resources": {"requests": {"cpu": pick(QUANTITIES), "memory": pick(QUANTITIES), text[:60]: pick(QUANTITIES)}}}], "nodeSelector": {text[:60]: text}, "tolerations": [{"key": text, "operator": text, "value": text, "effect": text, "tolerationSeconds": pick([0, 2**62])}], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": text, "operator": pick(["Gt", "In", text]), "values": [text]}]}]}}}, "topologySpreadConstraints": [{"maxSkew": pick([1, 2**31 - 1]), "topologyKey": text, "whenUnsatisfiable": text, "labelSelector": {"matchLabels": {text[:60]: text}}}]},
        "status": {"phase": pick(["Pending", "Running", text]), "reason": text, "message": text, "nominatedNodeName": text[:60], "conditions": [{"type": "PodScheduled", "status": pick(["False", "True"]), "reason": "Unschedulable", "message": reason + text, "lastTransitionTime": time}], "containerStatuses": [{"name": text, "ready": True, "restartCount": pick([2**31 - 1, 0]), "state": {"terminated": {"exitCode": 1, "finishedAt": time}}}]},
    }  # fmt: skip


def picked(number, values):
    """Return one of some values; which, differs for values beside each other."""
    return values[(number * 11 + number // 10) % len(values)]


def plain(kind, name):
    if kind == "node":
        return {"metadata": {"name": name, "uid": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Sick", "status": "True"}]}}  # fmt: skip
    if kind == "policy":
        rule = {"metricname": "node_condition_Sick", "operator": "Equals", "target": 1}
        spec = {"strategies": {"dontschedule": {"rules": [rule]}, "deschedule": {"rules": [rule]}}}
        return {"metadata": {"name": name, "namespace": "shop", "uid": name, "annotations": {"plimsoll.io/memory": "30d"}}, "spec": spec}  # fmt: skip
    return {"metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"telemetry-policy": "even"}}, "spec": {"nodeName": "node-even"}, "status": {"phase": "Running"}}  # fmt: skip


@pytest.fixture
async def build(api, connect, tmp_path, authority):
    """Builds an evaluator with every feature."""
    settings = every_feature(tmp_path, authority.issue("evaluator"))
    kube = await connect(api.url)
    return lambda: RunningEvaluator(api, kube, tmp_path, **settings)


@pytest.fixture
async def evaluator(build):
    return build()


def fill(evaluator, numbers):
    """Let the evaluator know odd objects beside even ones, and decide."""
    core = evaluator.core
    cluster, seen = core.cluster, core.all_pods.cache.pods
    decode = partial(decode_policy, vocabulary=VOCABULARY)
    record = partial(pod_record.decode, labels=True, extra=membership)
    odd = [
        (odd_node(f"node-{n}", n), odd_policy(f"odd-{n}", n), odd_pod(f"odd-{n}", n))
        for n in numbers
    ]
    even = [(plain("node", "node-even"), plain("policy", "even"), plain("pod", "even"))]
    nodes, policies, pods, records = [], [], [], []
    for node, policy, pod in odd + even:
        for raw, into, read in ((node, nodes, decode_node), (policy, policies, decode), (pod, pods, decode_pod), (pod, records, record)):  # fmt: skip
            with contextlib.suppress(*UNREADABLE):  # left out by the watch, with a line in the log
                into.append(read(json.dumps(raw).encode()))
    for sink, objects in ((cluster.nodes, nodes), (cluster.policies, policies), (cluster.pods, pods), (seen, records)):  # fmt: skip
        sink.replace(objects)
    for number in numbers:
        problem = ProblemCondition("KernelDeadlock", True, "R", "m", float(picked(number, [0, 1, 253402300799])))  # fmt: skip
        core.signals.publish(ProblemsReported(f"node-{number}", Problems((problem,))))
    core.loop.evaluate()
    for key in core.loop.latest.policies:
        core.signals.publish(Answered("shop/even", key, core.loop.latest, 3, {"node-even": "x"}))


def paths(evaluator):
    core = evaluator.core
    names = [*core.cluster.nodes.objects]
    keys = [f"{key.namespace}/{key.name}" for key in core.cluster.policies.objects]
    pods = ["/".join(key) for key in core.cluster.pods.objects]
    found = [
        "/",
        "/nodes",
        "/pods",
        "/rules",
        "/policies",
        "/history",
        "/gangs",
        "/explain?nodes",
        "/explain",
        "/explain/shop",
    ]
    found += [f"/nodes/{name}" for name in names] + [f"/explain?node={name}" for name in names]
    found += [f"/policies/{key}" for key in keys] + [f"/explain/{key}" for key in keys]
    found += [f"/pods/{name}" for name in pods] + [f"/explain?pod={name}" for name in pods]
    return [*found, "/explain?history", "/explain?gang", "/explain?metric=node_condition_Sick"]


async def fetch(evaluator, path, accept):
    """Return the status of a page and its text."""
    path, _, query = path.partition("?")
    request = Request("GET", path, parse_qs(query, keep_blank_values=True), {"accept": accept})
    response = await evaluator.service.operations(request)
    body = response.body
    text = b"".join(bytes(part) for part in body.parts) if isinstance(body, Parts) else bytes(body)
    assert not isinstance(body, Parts) or len(text) == body.size
    return response.status, text


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
async def test_no_page_fails_for_an_odd_object_and_the_others_are_shown(evaluator, accept):
    fill(evaluator, range(20))
    failed = []
    for path in paths(evaluator):
        status, text = await fetch(evaluator, path, accept)
        if status >= 500:
            failed.append((path, status, text[:200]))
        if accept == "application/json" or path.startswith("/explain"):
            json.loads(text.decode())
    assert not failed
    assert not [part for part, count in evaluator.errors().items() if count]
    for path in (
        "/",
        "/nodes",
        "/pods",
        "/nodes/node-even",
        "/policies/shop/even",
        "/pods/shop/even",
    ):
        _, text = await fetch(evaluator, path, accept)
        assert b"even" in text


class OddError(Exception):
    """What nobody expected."""


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
async def test_what_a_feature_raises_for_one_object_is_left_out_and_said(
    build, accept, monkeypatch
):
    def raising(owner, name):
        usual = getattr(owner, name)

        def odd(self, about):
            policy = getattr(about, "policy", None)
            if "odd" in str(about if policy is None else policy.key):
                raise OddError(name)
            return usual(self, about)

        monkeypatch.setattr(owner, name, odd)

    raising(EvictionReport, "policy")
    raising(EvictionReport, "part")
    evaluator = build()
    fill(evaluator, range(3))
    await fetch(evaluator, "/policies/shop/odd-1", accept)
    said = LEFT_OUT.partition(",")[0].encode()
    for path in (
        "/policies/shop/odd-1",
        "/policies/shop/even",
        "/",
        "/policies",
        "/explain/shop/odd-1",
    ):
        status, text = await fetch(evaluator, path, accept)
        assert (status, said in text) == (200, True), path
    assert evaluator.errors()["pages"] >= 2


async def test_page_that_raises_is_an_error_that_is_counted(evaluator, monkeypatch):
    fill(evaluator, range(1))
    monkeypatch.setattr(PolicyReports, "rules", lambda *_: fail())
    for _ in range(3):
        status, text = await fetch(evaluator, "/rules", "application/json")
        assert (status, "internal error" in json.loads(text)["error"]) == (500, True)
    assert evaluator.errors()["pages"] == 3
    status, _ = await fetch(evaluator, "/nodes", "application/json")
    assert status == 200


def fail():
    raise OddError
