"""The pages for a browser: their data, their HTML, negotiation and headers."""

import json
import re
from dataclasses import replace

import pytest

from evaluator.core.page_fields import ListedPolicyFields, PolicyFields
from evaluator.core.pages.part import PagePart
from evaluator.core.sources.agents.port_process import PortRestarts
from evaluator.features.pages.rendering import Drawing
from tests.evaluator.features.pages.conftest import Html, PagesOfPolicies, body, filled
from wire.codec import Delta


async def data(pages, target):
    """Return a page as JSON."""
    response = await pages.get(target, accept="application/json")
    assert response.status == 200, body(response)
    assert response.content_type == "application/json"
    return json.loads(body(response))


async def test_overview_counts_nodes_by_strategy_and_state(pages, demo):
    found = await data(filled(pages, demo), "/")
    [policy] = found["policies"]
    assert policy["policy"] == "ns/demo"
    none = {"violating": 0, "pending": 0, "clearing": 0, "missing": 0}
    assert policy["strategies"] == {
        "dontschedule": {**none, "pending": 2},
        "deschedule": {**none, "violating": 1},
        "labeling": {**none, "violating": 1},
    }
    assert policy["states"] == {
        "violated": 1,
        "clearing": 0,
        "heldback": 0,
        "pending": 1,
        "labelled": 0,
        "awaited": 1,
        "missing": 0,
        "clear": 1,
    }
    runs = [[0, 1, "violated"], [1, 1, "pending"], [3, 1, "awaited"]]
    assert policy["strip"] == {"columns": 4, "runs": runs}
    assert policy["oldestReadingSeconds"] == 2.5
    assert found["waitingFor"] == ["the first report of 1 node"]
    assert found["evaluator"]["sources"] == ["agents"]


async def test_overview_tells_how_long_the_api_server_was_silent(pages, demo):
    filled(pages, demo)
    pages.cluster.staleness.observed("nodes", pages.now)
    pages.now += 7.0
    silent = {one["kind"]: one for one in (await data(pages, "/"))["apiServer"]}
    assert silent["nodes"] == {"kind": "nodes", "silentSeconds": 7.0, "stale": False}
    assert silent["pods"]["silentSeconds"] is None
    assert "last update of nodes 7.0 s ago" in (await pages.html("/")).text


async def test_overview_as_a_page_has_the_same_numbers_and_names_states_by_word(pages, demo):
    page = await filled(pages, demo).html("/")
    assert page.heading == "Overview"
    [strip] = [one for one in page.all("svg") if one["class"] == "strip"]
    assert strip["role"] == "img"
    assert strip["aria-label"] == "1 violated, 1 pending, 1 awaited, 1 clear"
    assert [path["class"] for path in page.all("path") if "class" in path] == [
        "is-violated",
        "is-pending",
        "is-awaited",
    ]
    assert "waiting for the first report of 1 node" in page.text


async def test_overview_says_in_one_line_whether_all_is_well(pages, demo, parsed, rule):
    pages.know(demo, nodes=("a", "b"))
    pages.store.subscribe(["m", "k"])
    pages.report({"a": Delta({"m": 1.0, "k": 0.0}), "b": Delta({"m": 1.0, "k": 0.0})})
    assert (await data(pages, "/"))["attention"] == []
    assert "All is well" in (await pages.html("/")).text
    pages.report({"a": Delta({"m": 10.0})})
    [phrase] = (await data(pages, "/"))["attention"]
    assert phrase == "1 of 2 nodes violates 1 of 1 policy (ns/demo)"
    assert f"Needs attention : {phrase}." in (await pages.html("/")).text
    observed = parsed("demo", deschedule=[rule("m GreaterThan 9")])
    object.__setattr__(observed, "observed_by", "--observe")
    pages.know(observed, nodes=("a", "b"))
    assert (await data(pages, "/"))["attention"] == []


async def test_restart_of_the_agents_port_is_shown_with_its_reason(demo):
    restarts = PortRestarts(clock=lambda: pages.now)
    pages = filled(PagesOfPolicies(port_restarts=restarts), demo)
    none = {"restarts": 0, "lastRestartSeconds": None, "reason": None}
    for target in ("/explain", "/"):
        found = await data(pages, target)
        assert found.get("evaluator", found)["agentsPort"] == none
    assert "agents' port" not in (await pages.html("/")).text.lower()
    for reason in ("ended with status -9", "took 300 MiB of memory, at most 256"):
        restarts.note(reason)
    pages.now += 90.0
    last = {"restarts": 2, "lastRestartSeconds": 90.0, "reason": restarts.reason}
    for target in ("/explain", "/explain/ns", "/"):
        found = await data(pages, target)
        assert found.get("evaluator", found)["agentsPort"] == last
    shown = "Agents' port restarted 2 times, last 90 s ago: took 300 MiB of memory, at most 256"
    assert shown in (await pages.html("/")).text
    phrase = "the agents' port restarted (took 300 MiB of memory, at most 256)"
    assert phrase in (await data(pages, "/"))["attention"]
    pages.now += 600.0
    assert phrase not in (await data(pages, "/"))["attention"]


async def test_policy_lists_nodes_that_differ_with_times_and_timers(pages, demo):
    filled(pages, demo)
    found = await data(pages, "/policies/ns/demo")
    assert list(found["nodes"]) == ["a", "b", "d"]  # the worst first
    node = found["nodes"]["a"]
    assert node["state"] == "violated"
    assert node["violatedSeconds"] == {"deschedule": 2.5, "labeling": 2.5}
    [timer] = node["timers"]
    assert timer == {
        "strategy": "dontschedule",
        "rule": "m GreaterThan 5",
        "timer": "for",
        "leftSeconds": 2.5,
    }
    assert node["deschedule"] == "violating demo: m GreaterThan 9"
    assert found["pods"][0]["pod"] == "ns/web"
    [rule] = found["strategies"]["dontschedule"]["rules"]
    assert rule["words"] == "m is greater than 5, for 5s, until it did not for 20s"
    page = await pages.html("/policies/ns/demo")
    assert page.heading == "Policy ns/demo"
    assert "Pods of this policy should leave nodes where this rule holds" in page.text


async def test_violation_that_ends_is_clearing(pages, demo):
    filled(pages, demo)
    pages.now += 5.0
    pages.report({"b": Delta()})
    pages.report({"b": Delta({"m": 1.0})})
    pages.now += 1.0
    found = (await data(pages, "/policies/ns/demo"))["nodes"]["b"]
    assert found["state"] == "clearing"
    assert [one["timer"] for one in found["timers"]] == ["clearAfter"]


@pytest.mark.parametrize(
    ("query", "nodes"),
    [
        ("", ["a", "b", "d"]),
        ("?state=all", ["a", "b", "d", "c"]),
        ("?state=clear", ["c"]),
        ("?state=pending", ["b"]),
        ("?state=nonsense", ["a", "b", "d"]),
        ("?search=d", ["d"]),
        ("?state=all&search=nowhere", []),
        ("?page=99", ["a", "b", "d"]),
        ("?page=-1", ["a", "b", "d"]),
        ("?page=" + "9" * 400, ["a", "b", "d"]),
    ],
)
async def test_filters_are_part_of_the_link(pages, demo, query, nodes):
    filled(pages, demo)
    for path in ("/nodes", "/policies/ns/demo"):
        assert list((await data(pages, f"{path}{query}"))["nodes"]) == nodes
        await pages.html(f"{path}{query}")


async def test_a_page_has_200_nodes_and_links_to_the_next(pages, demo):
    nodes = [f"n{number:03}" for number in range(450)]
    pages.know(demo, nodes=nodes)
    for number, begin, end in ((1, 0, 200), (2, 200, 400), (3, 400, 450)):
        found = await data(pages, f"/nodes?page={number}")
        assert list(found["nodes"]) == nodes[begin:end]
        assert (found["window"]["pages"], found["window"]["found"]) == (3, 450)
    page = await pages.html("/nodes?page=2")
    turns = {one["rel"]: one["href"] for one in page.all("a") if "rel" in one}
    assert turns == {"prev": "?page=1", "next": "?page=3"}


async def test_node_shows_every_policy_and_reading(pages, demo, parsed, rule):
    other = parsed("other", dontschedule=[rule("k Equals 1")])
    pages.know(demo, other)
    pages.report({"node-a": Delta({"m": 10.0, "k": 0.5})})
    pages.report({"node-a": Delta(unread=["k"])})
    found = await data(pages, "/nodes/node-a")
    assert set(found["policies"]) == {"ns/demo", "ns/other"}
    assert found["policies"]["ns/other"]["readings"]["k"]["state"].startswith("unread")
    assert [one["strategy"] for one in found["policies"]["ns/demo"]["rules"]] == [
        "deschedule",
        "dontschedule",
        "labeling",
        "scheduleonmetric",
    ]
    assert found["written"] == {"labels": {}}
    page = await pages.html("/nodes/node-a")
    assert page.heading == "Node node-a"
    assert "0.5 unread: its source cannot be read, the last reading still counts" in page.text
    explained = json.loads(body(await pages.get("/explain?node=node-a")))
    assert explained == found  # /explain is the older name


AROUND = dict.fromkeys(("title", "subject", "section", "json", "made", "replica"), "x")
AROUND |= {
    "root": "./",
    "navigation": [],
    "sections": [],
    "version": "1",
    "compliance": (),
    "notices": (),
}


async def test_values_have_units_and_times_can_be_shown_local(pages, parsed, rule):
    metric = "memory_MemAvailable_bytes"
    pages.know(parsed("demo", dontschedule=[rule(f"{metric} LessThan 268435456")]), nodes=["a"])
    pages.store.subscribe([metric])
    pages.report({"a": Delta({metric: 22867496960.0})})
    policy = (await pages.html("/policies/ns/demo?state=all")).text
    assert f"{metric} is less than 268435456 (256 MiB)" in policy
    assert "21.3 GiB" in policy
    found = await data(pages, "/nodes/a")
    found["scorers"] = {
        "allocatable": {"cpu": 3920.0, "memory": 16e9, "pods": 110.0},
        "requested": {"cpu": 250.0},
        "recentlyBound": {},
        "usage": {"cpu": {"free": 1234.5678, "deviation": None, "forecast": None}},
        "congestion": 0.123456789,
        "readings": {"cpu_used_cores": 1.23456},
        "annotations": {},
    }
    at = "2026-11-20T09:15:04Z"
    problem = {"type": "Ill", "active": True, "reason": "Xid", "message": "79", "condition": "ours"}
    found["problems"] = [{**problem, "since": at, "acknowledged": {"at": at, "by": None}}]
    page = Html("".join(Drawing()._templates.pieces("node.html", {**AROUND, "page": found})))
    for text in ("3.92 cores", "14.9 GiB", "110", "1.23 cores", "unknown", "0.123"):
        assert text in page.text
    assert [one["datetime"] for one in page.all("time")].count(at) == 2


async def test_rules_name_the_nodes_that_cannot_read_a_metric(pages, demo):
    pages.know(demo, nodes=["a", "b"])
    pages.report({"a": Delta({"m": 1.0}, unread=["k"]), "b": Delta({"k": 1.0}, several={"m": 2})})
    found = (await data(pages, "/rules"))["metrics"]
    assert list(found) == ["k", "m"]  # what cannot be read comes first
    assert found["k"]["nodes"]["unread"] == 1
    assert found["k"]["named"] == {"unread": ["a"]}
    assert found["m"]["named"] == {"several": ["b"]}
    assert found["m"]["policies"] == ["ns/demo"]
    assert list((await data(pages, "/rules?state=several"))["metrics"]) == ["m"]
    await pages.html("/rules")


BROKEN = {"group": "g", "rule": "node_x", "reason": "evaluation", "text": "many to many"}


async def test_rules_that_fail_are_listed_with_their_nodes(pages, demo):
    pages.know(demo, nodes=["a", "b", "c"])
    pages.report({node: Delta({"m": 1.0, "k": 1.0}) for node in ("a", "b")})
    file = {"file": "b.yaml", "reason": "invalid", "text": "no YAML"}
    pages.report_failing("b", {**BROKEN, "seconds": 90}, file, more=2)
    pages.report_failing("a", BROKEN)
    pages.report_failing("c", BROKEN)  # without a fresh report
    found = await data(pages, "/rules")
    assert found["failing"] == {"nodes": 2, "failures": 2, "notStored": 2}
    rule, other = found["failingRules"]
    assert rule == {
        "file": "",
        "group": "g",
        "rule": "node_x",
        "reason": "evaluation",
        "message": "many to many",
        "messages": 1,
        "nodeCount": 2,
        "nodes": ["a", "b"],
        "failingSeconds": 90.0,
    }
    assert (other["file"], other["nodes"]) == ("b.yaml", ["b"])
    page = await pages.html("/rules")
    assert "many to many" in page.text
    assert {"./nodes/a", "./nodes/b"} <= {one["href"] for one in page.all("a")}
    assert [one["rule"] for one in (await data(pages, "/rules?search=de_x"))["failingRules"]] == [
        "node_x"
    ]


async def test_node_shows_its_failing_rules_until_its_report_is_stale(pages, demo):
    pages.know(demo, nodes=["a"])
    pages.report({"a": Delta({"m": 1.0, "k": 1.0})})
    pages.report_failing("a", BROKEN, more=1)
    pages.now += 30.0
    found = (await data(pages, "/nodes/a"))["failingRules"]
    assert (found["ageSeconds"], found["more"]) == (30.0, 1)
    assert found["rules"][0]["failingSeconds"] == 30.0
    page = await pages.html("/nodes/a")
    assert "As of the agent's report 30 s ago; 1 more are on the agent's page." in page.text
    assert "many to many" in page.text
    pages.now += 1.0
    found = (await data(pages, "/nodes/a"))["failingRules"]
    assert found == {"ageSeconds": None, "rules": [], "more": 0}
    assert "many to many" not in (await pages.html("/nodes/a")).text
    assert (await data(pages, "/rules"))["failingRules"] == []


async def test_messages_of_one_rule_that_differ_by_node_are_one_failure(pages, demo):
    pages.know(demo, nodes=["a", "b", "c"])
    pages.report({node: Delta({"m": 1.0, "k": 1.0}) for node in ("a", "b", "c")})
    for node, disk in (("a", "sda"), ("b", "nvme0"), ("c", "nvme0")):
        pages.report_failing(node, {**BROKEN, "text": f"many to many on {disk}"})
    [found] = (await data(pages, "/rules"))["failingRules"]
    assert (found["message"], found["messages"]) == ("many to many on nvme0", 2)
    assert (found["nodeCount"], found["nodes"]) == (3, ["a", "b", "c"])
    assert "many to many on nvme0 (one of 2 messages)" in (await pages.html("/rules")).text


async def test_failures_on_most_nodes_come_first_and_the_others_are_counted(pages, demo):
    nodes = [f"node-{number:03}" for number in range(60)]
    pages.know(demo, nodes=nodes)
    pages.report({node: Delta({"m": 1.0, "k": 1.0}) for node in nodes})
    for node in nodes:
        own = ({**BROKEN, "rule": f"{node}_{number}"} for number in range(2))
        pages.report_failing(node, BROKEN, *own)
    found = await data(pages, "/rules")
    assert found["failing"]["failures"] == 121
    assert len(found["failingRules"]) == 100
    first = found["failingRules"][0]
    assert (first["nodeCount"], first["nodes"]) == (60, nodes[:10])
    assert "100 of 121 failures, on 60 nodes" in (await pages.html("/rules")).text


async def test_pods_are_listed_and_explained(pages, demo):
    filled(pages, demo)
    assert [one["pod"] for one in (await data(pages, "/pods"))["pods"]] == ["ns/web"]
    found = await data(pages, "/pods/ns/web")
    assert found["summary"] == "unknown: the evaluator waits for the first report of 1 node"
    assert list(found["nodes"]) == ["d", "a", "b", "c"]
    assert list((await data(pages, "/pods/ns/web?state=left"))["nodes"]) == ["a", "b", "c"]
    assert await data(pages, "/pods?pod=ns/web") == found
    assert (await pages.html("/pods/ns/web")).heading == "Pod ns/web"


@pytest.mark.parametrize(
    "target",
    [
        "/nodes/nowhere",
        "/policies/ns/other",
        "/pods/ns/none",
        "/policies/ns/demo/more",
        "/nodes/a/b",
    ],
)
async def test_an_unknown_page_is_an_error_in_the_form_asked_for(pages, demo, target):
    filled(pages, demo)
    response = await pages.get(target)
    assert response.status == 404
    page = Html(body(response))
    assert page.heading == "Not Found"
    for response in (
        await pages.get(target, accept="application/json"),
        await pages.get(f"{target}.json", accept="text/html"),
    ):
        assert response.status == 404
        found = json.loads(body(response))
        assert found["kind"] == "Status"
        assert found["message"] in page.text


async def test_a_namespace_has_lists_of_its_own(pages, demo, parsed):
    other = parsed("demo", namespace="ns-2")
    pages.know(demo, other, pods=[("ns", "web", "demo"), ("ns-2", "web", "demo")])
    for path in ("/policies/ns", "/policies/ns/"):
        found = await data(pages, path)
        assert [one["policy"] for one in found["policies"]] == ["ns/demo"]
        assert (found["window"]["found"], found["window"]["total"]) == (1, 1)
        assert (await pages.html(path)).heading == "Overview ns"
        assert (await data(pages, f"{path}?search=2"))["policies"] == []
    assert [one["pod"] for one in (await data(pages, "/pods/ns-2"))["pods"]] == ["ns-2/web"]


async def test_suffix_and_accept_return_the_same_data(pages, demo):
    filled(pages, demo)
    for path, twin in (
        ("/", "/index.json"),
        ("/policies", "/policies.json"),
        ("/nodes", "/nodes.json"),
        ("/nodes/", "/nodes.json"),
        ("/nodes/a", "/nodes/a.json"),
        ("/policies/ns/demo", "/policies/ns/demo.json"),
        ("/pods", "/pods.json"),
        ("/rules", "/rules.json"),
    ):
        by_suffix = await pages.get(twin)
        assert by_suffix.content_type == "application/json"
        assert json.loads(body(by_suffix)) == await data(pages, path)


async def test_pages_forbid_what_a_page_does_not_need(pages, demo):
    filled(pages, demo)
    for target in ("/", "/nodes/a", "/nodes/nowhere", "/index.json", "/explain"):
        headers = dict((await pages.get(target)).headers)
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in headers
    headers = dict((await pages.get("/")).headers)
    assert headers["content-security-policy"].startswith("default-src 'none'; ")
    assert headers["vary"] == "Accept"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_pages_are_only_read(pages, demo, method):
    filled(pages, demo)
    for target in ("/", "/nodes", "/policies/ns/demo"):
        assert (await pages.get(target, method=method)).status == 405


async def test_probes_and_unknown_paths_are_answered_as_before(pages):
    assert (await pages.get("/healthz")).status == 200
    for path in ("/nothing", "/robots.txt", "/policiesx", "/nodesx/a", "//"):
        response = await pages.get(path)
        assert response.status == 404
        assert response.content_type.startswith("text/plain")


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("/", ["1 problem, 1 warning", "Problem: no node has it", "Warning: it is a counter"]),
        ("/policies/ns/demo", ["Problem: no node has it", "Warning: it is a counter"]),
        ("/pods/ns/web", ["1 problem, 1 warning"]),
    ],
)
async def test_problems_and_warnings_are_on_the_first_page_and_those_of_policy_and_pod(
    pages, demo, path, texts
):
    flawed = replace(demo, problems=("no node has it",), warnings=("it is a counter",))
    pages.know(flawed, pods=[("ns", "web", "demo")])
    pages.report({node: Delta({"m": 1.0, "k": 1.0}) for node in ("node-a", "node-b")})
    words = " ".join(re.sub("<[^>]*>", " ", body(await pages.get(path))).split())
    shown = words.replace(" :", ":").replace(" ,", ",")
    assert [text for text in texts if text not in shown] == []


@pytest.mark.parametrize(
    ("target", "template"),
    [("/nodes?state=all", "nodes.html"), ("/pods/ns/web", "pod.html"), ("/rules", "rules.html")],
)
async def test_no_piece_of_a_page_grows_with_nodes(pages, demo, target, template):
    """A piece is drawn in one step of the event loop."""
    most = []
    for count in (20, 200):
        nodes = [f"node-{number:03}" for number in range(count)]
        pages.know(demo, nodes=nodes, pods=[("ns", "web", "demo")])
        pages.report({node: Delta({"m": 10.0, "k": 1.0}) for node in nodes})
        for node in nodes:
            pages.report_failing(node, BROKEN)
        values = {**AROUND, "page": await data(pages, target)}
        most.append(max(map(len, Drawing()._templates.pieces(template, values))))
    assert most[1] <= 1.1 * most[0]


async def test_pages_name_the_device_of_a_usable_reading(pages, demo):
    pages.know(demo, nodes=("node-a", "node-b"), pods=[("ns", "p", "demo")])
    pages.report({"node-a": Delta({"m": 9.5}), "node-b": Delta({"m": 1.0})})
    pages.causes.report("node-a", {"m": "gpu: UUID=GPU-1, <b>"})
    cause = {"cause": "gpu: UUID=GPU-1, <b>"}
    for page in ("/nodes/node-a", "/policies/ns/demo", "/pods/ns/p"):
        assert "&lt;b&gt;" in body(await pages.get(page)), page
    node = await data(pages, "/nodes/node-a?format=json")
    assert node["policies"]["ns/demo"]["readings"]["m"].items() >= cause.items()
    policy = await data(pages, "/explain/ns/demo")
    assert policy["nodes"]["node-a"]["readings"]["m"].items() >= cause.items()
    assert "cause" not in policy["nodes"]["node-b"]["readings"]["m"]
    pod = await data(pages, "/explain?pod=ns/p")
    assert pod["nodes"]["node-a"]["rules"][0].items() >= cause.items()
    assert "&lt;b&gt;" in body(await pages.get("/nodes"))
    listed = (await data(pages, "/explain?nodes"))["nodes"]
    assert listed["node-a"]["causes"] == ["gpu: UUID=GPU-1, <b>"]
    assert "causes" not in listed["node-b"]
    pages.now += 31  # stale
    policy = await data(pages, "/explain/ns/demo")
    assert "cause" not in policy["nodes"]["node-a"]["readings"]["m"]


class Flapping(ListedPolicyFields):
    flapping: list[str]
    flapping_more: int


class Remembered(PolicyFields):
    memory: dict[str, list[str]]


async def test_lists_of_policies_and_a_policy_have_what_features_know_of_it(pages, demo):
    """Flapping nodes, for example: on the first page and for the plugin."""
    pages.know(demo, nodes=("node-a", "node-b"))
    pages.report({"node-a": Delta({"m": 9.5}), "node-b": Delta({"m": 1.0})})
    assert "flapping" not in body(await pages.get("/"))
    listed, policy = Flapping(["node-<b>"], 3), Remembered({"nodes": []})
    flapping, memory = {"flapping": ["node-<b>"], "flappingMore": 3}, {"memory": {"nodes": []}}
    pages.parts.append(PagePart(listed=lambda _: listed, policy=lambda _: policy))
    first = await pages.html("/")
    assert "flapping : node-<b> and 3 more stay in violation" in first.text
    for target in ("/?format=json", "/explain", "/explain/ns"):
        (row,) = (await data(pages, target))["policies"]
        assert row.items() >= flapping.items(), target
    assert (await data(pages, "/explain/ns/demo")).items() >= memory.items()
