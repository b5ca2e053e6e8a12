"""The fields of each page as JSON. Programs read them: fields may be added, never removed or renamed."""

import json

import pytest

from tests.evaluator.features.pages.conftest import body
from tests.schema import check
from wire.codec import Delta

READING = {"value", "ageSeconds", "state"}
WINDOW = {"search", "state", "page", "pages", "found", "total"}
STATES = {"violated", "clearing", "heldback", "pending", "labelled", "awaited", "missing", "clear"}
FAILING = {"file", "group", "rule", "reason", "message"}
RULE = {"rule", "words", "broken"}
FIELDS = {
    "/": {
        "": {
            *("waitingFor", "nodeCount", "attention"),
            *("evaluator", "apiServer", "window", "policies"),
        },
        "evaluator": {
            *("version", "leads", "leader", "agents", "agentsPort", "sources"),
        },
        "apiServer.0": {"kind", "silentSeconds", "stale"},
        "window": WINDOW,
        "policies.0": {
            *("policy", "explain", "dontschedule", "deschedule", "enforcement", "problems"),
            *("warnings", "strategies", "states", "strip", "oldestReadingSeconds"),
        },
        "policies.0.strategies.deschedule": {"violating", "pending", "clearing", "missing"},
        "policies.0.states": STATES,
        "policies.0.strip": {"columns", "runs"},
    },
    "/policies/ns/demo": {
        "": {
            *("waitingFor", "policy", "generation", "enforcement", "problems", "warnings"),
            *("awaited",),
            *("strategies", "scheduleonmetric", "states", "strip", "window", "status"),
            *("pods", "nodes"),
        },
        "strategies.dontschedule": {"logicalOperator", "words", "rules"},
        "strategies.dontschedule.rules.0": {*RULE, "pending", "clearing"},
        "strategies.labeling.rules.0": {*RULE, "labels"},
        "scheduleonmetric": {"metric", "words", "order", "scores"},
        "states": STATES,
        "window": WINDOW,
        "status": {"compliance", "message", "conditions"},
        "pods.0": {"pod", "policy", "phase", "node", "schedulerReason", "schedulerMessage"},
        "nodes.node-a": {
            *("state", "violatedSeconds", "timers", "readings", "dontschedule", "deschedule"),
            *("labels", "written"),
        },
        "nodes.node-a.timers.0": {"strategy", "rule", "timer", "leftSeconds"},
        "nodes.node-a.readings.m": READING,
        "nodes.node-a.written": {"labels"},
    },
    "/nodes": {
        "": {"waitingFor", "states", "window", "nodes"},
        "states": STATES,
        "nodes.node-a": {"state", "ready", "cordoned", "violates", "labels"},
    },
    "/nodes/node-a": {
        "": {
            *("waitingFor", "node", "ready", "cordoned", "labels", "sources", "written"),
            *("policies", "failingRules"),
        },
        "failingRules": {"ageSeconds", "rules", "more"},
        "failingRules.rules.0": {*FAILING, "failingSeconds"},
        "policies.ns/demo": {
            *("state", "mode", "dontschedule", "deschedule", "violatedSeconds", "timers"),
            *("awaited", "labels", "rules", "readings"),
        },
        "policies.ns/demo.rules.0": {"strategy", "rule", "metric", "targetValue", "violated"},
        "policies.ns/demo.readings.m": READING,
    },
    "/pods": {
        "": {"waitingFor", "window", "pods"},
        "pods.0": {"pod", "policy", "phase", "node", "schedulerReason", "schedulerMessage"},
    },
    "/pods/ns/web": {
        "": {
            *("waitingFor", "pod", "summary", "turnedAwayByPlimsoll", "node", "phase", "policy"),
            *("gates", "scheduler", "schedulerReason", "schedulerMessage"),
            *("nodeCounts", "window", "nodes"),
        },
        "policy": {"name", "applies", "mode", "problems", "warnings"},
        "nodeCounts": {
            *("total", "notFeasible", "refusedByPolicy", "awaitingReadings", "refusedByScorers"),
            "left",
        },
        "nodes.node-a": {"obstacles", "refused", "rules", "score"},
        "nodes.node-a.rules.0": {"rule", "target", "targetValue", "violated", *READING},
    },
    "/rules": {
        "": {"waitingFor", "nodeCount", "failing", "window", "metrics", "failingRules"},
        "failing": {"nodes", "failures", "notStored"},
        "failingRules.0": {*FAILING, "messages", "nodeCount", "nodes", "failingSeconds"},
        "metrics.m": {"nodes", "named", "policies", "similar", "problem"},
        "metrics.m.nodes": {
            *("unread", "several", "notANumber", "stale", "absent", "awaited", "usable"),
        },
    },
}


def part(found, path):
    for name in filter(None, path.split(".")):
        found = found[int(name)] if isinstance(found, list) else found[name]
    return found


@pytest.mark.parametrize("target", FIELDS)
async def test_a_page_has_its_fields(pages, demo, target):
    pages.know(demo, pods=[("ns", "web", "demo")])
    pages.report({node: Delta({"m": 10.0, "k": 1.0}) for node in ("node-a", "node-b")})
    pages.report_failing("node-a", {"group": "g", "rule": "r", "reason": "limit", "text": "x"})
    found = json.loads(body(await pages.get(target, accept="application/json")))
    for path, fields in FIELDS[target].items():
        assert set(part(found, path)) == fields, path


KINDS = {
    "/index.json": "Overview",
    "/explain": "PolicyList",
    "/explain/ns": "PolicyList",
    "/explain/ns/demo": "ExplainedPolicy",
    "/policies/ns/demo.json": "PolicyPage",
    "/explain?nodes": "NodeList",
    "/nodes.json?state=all": "NodesPage",
    "/nodes/node-a.json": "NodePage",
    "/explain?node=node-a": "NodePage",
    "/pods.json": "PodsPage",
    "/pods/ns/web.json": "PodPage",
    "/explain?pod=ns/web": "PodPage",
    "/explain?metric=m&metric=none": "MetricList",
    "/rules.json": "RulesPage",
}


@pytest.mark.parametrize("target", KINDS)
async def test_a_page_has_the_documented_fields_and_types_only(pages, demo, target):
    pages.know(demo, pods=[("ns", "web", "demo")])
    pages.report({node: Delta({"m": 10.0, "k": 1.0}) for node in ("node-a", "node-b")})
    pages.report_failing("node-a", {"group": "g", "rule": "r", "reason": "limit", "text": "x"})
    found = json.loads(body(await pages.get(target, accept="application/json")))
    check(found, KINDS[target])
