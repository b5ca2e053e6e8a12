"""Log lines of requests, with the phrases that users of Telemetry Aware Scheduling search for."""

import json
import re

import pytest

FILTER, PRIORITIZE = "/scheduler/filter", "/scheduler/prioritize"


def body(policy="demo-policy", names=("node-a", "node-b", "node-c"), pod="web"):
    labels = {"telemetry-policy": policy} if policy else {}
    metadata = {"name": pod, "namespace": "ns", "labels": labels}
    return json.dumps({"Pod": {"metadata": metadata}, "NodeNames": names}).encode()


async def test_filter_logs_the_phrases_of_tas(log_lines, server):
    read = log_lines("logfmt")
    await server.post(FILTER, body())
    (line,) = read()
    assert 'msg="Filtered nodes for demo-policy: node-a node-c"' in line
    assert "pod=ns/web" in line
    assert "policy=demo-policy" in line


async def test_filter_logs_the_same_in_json(log_lines, server):
    read = log_lines("json")
    await server.post(FILTER, body())
    (line,) = read()
    found = json.loads(line)
    assert found["msg"] == "Filtered nodes for demo-policy: node-a node-c"
    assert (found["pod"], found["policy"]) == ("ns/web", "demo-policy")


@pytest.mark.parametrize(
    ("policy", "why"),
    [("", "no_policy_label"), ("unknown", "policy_not_found"), ("empty", "no_rules")],
)
async def test_missing_policy_is_logged(log_lines, server, policy, why):
    read = log_lines("logfmt")
    await server.post(FILTER, body(policy))
    await server.post(PRIORITIZE, body(policy))
    filtered, ranked = read()
    assert 'msg="All nodes pass"' in filtered
    assert 'msg="No node preferred"' in ranked
    assert all(f"why={why}" in line and "pod=ns/web" in line for line in (filtered, ranked))


async def test_rejection_is_logged_on_one_line(log_lines, server):
    read = log_lines("logfmt")
    await server.post(FILTER, b"{")
    (line,) = read()
    assert re.search(
        r'level=warning msg="filter refused" status=400 error="not ExtenderArgs: [^"]*"', line
    )


async def test_names_with_newlines_forge_no_log_line(log_lines, server):
    read = log_lines("logfmt")
    await server.post(FILTER, body(pod="x\nlevel=error", names=["n\r\nm"]))
    assert len(read()) == 1


@pytest.mark.parametrize(
    ("nodes", "told"),
    [(10, " ".join(f"n{n}" for n in range(9))), (11, "10 of 11 nodes"), (5_000, "4999 of 5000 nodes")],
)  # fmt: skip
async def test_no_line_grows_with_the_cluster(log_lines, server, nodes, told):
    read = log_lines("logfmt")
    names = [*(f"n{number}" for number in range(nodes - 1)), "node-b"]
    await server.post(FILTER, body(names=names))
    (line,) = read()
    assert f'msg="Filtered nodes for demo-policy: {told}"' in line
    assert len(line) < 250


async def test_rejections_are_logged_at_a_limited_rate(log_lines, server):
    """An authenticated client that sends invalid requests must not control the log rate."""
    read = log_lines("logfmt")
    for _ in range(500):
        await server.post(FILTER, b"{")
    lines = read()
    assert len(lines) < 250
    assert any('msg="filter refused"' in line for line in lines)
