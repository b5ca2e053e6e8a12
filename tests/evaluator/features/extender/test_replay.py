"""Recorded requests of a real kube-scheduler, replayed over a socket and compared with golden replies."""

import json
import re
from pathlib import Path

import pytest

from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import parse
from evaluator.core.readings.store import Store
from wire.codec import Delta

HERE = Path(__file__).parent
RECORDED = sorted(HERE.glob("requests/*.json"))
NOW = 1000.0


def number(node):
    return int(node.removeprefix("node-"))


def readings(node):
    """Readings by node number: every third violates, every tenth has no memory reading, some share a value."""
    found = {"health": float(number(node) % 3 == 1)}
    return found if number(node) % 10 == 7 else {**found, "memory": float(number(node) // 2)}


def slices(body):
    """Node name → its bytes in a request, found without our decoder."""
    text = body.decode()
    start = text.index('"items":[', text.index('"Nodes":')) + len('"items":[')
    found = {}
    while text[start] != "]":
        node, end = json.JSONDecoder().raw_decode(text, start)
        found[node["metadata"]["name"]] = text[start:end].encode()
        start = end + (text[end] == ",")
    return found


@pytest.fixture(scope="module")
def decisions(tas, rule):
    policy = parse(
        tas(
            "demo-policy",
            "default",
            dontschedule=[rule("health Equals 1")],
            scheduleonmetric=[rule("memory GreaterThan 0")],
        )
    )
    nodes = [f"node-{i}" for i in range(1, 101)]
    store = Store(stale_after=30.0, started=0.0)
    store.subscribe(policy.metrics)
    for node in nodes:
        found = readings(node)
        store.report(node, Delta(found, store.metrics - found.keys()), NOW)
    return decide([policy], nodes, store, now=NOW)


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_whole_reply_equals_the_golden_file(extender, decisions, path, verb):
    body = path.read_bytes()
    server = await extender(decisions)
    reply = await server.post(f"/scheduler/{verb}", body)
    golden = (HERE / "golden" / f"{path.stem}.{verb}.json").read_bytes().rstrip(b"\n")
    if b'"<<' in golden:
        nodes = slices(body)
        golden = re.sub(rb'"<<(.*?)>>"', lambda found: nodes[found[1].decode()], golden)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.body == golden


@pytest.mark.parametrize("path", [p for p in RECORDED if "-nodes-" in p.name], ids=lambda p: p.stem)
async def test_nodes_by_name_get_the_same_answer(extender, decisions, path):
    """A cluster that enables nodeCacheCapable must see no difference except in bandwidth."""
    asked = json.loads(path.read_bytes())
    names = [node["metadata"]["name"] for node in asked["Nodes"]["items"]]
    by_name = json.dumps({**asked, "Nodes": None, "NodeNames": names}).encode()
    server = await extender(decisions)
    whole = json.loads((await server.post("/scheduler/filter", path.read_bytes())).body)
    short = json.loads((await server.post("/scheduler/filter", by_name)).body)
    assert whole.pop("Nodes")["items"] == [
        node for node in asked["Nodes"]["items"] if number(node["metadata"]["name"]) % 3 != 1
    ]
    assert short.pop("Nodes") is None
    assert whole == short


async def test_filter_and_prioritize_share_one_connection(extender, decisions):
    server = await extender(decisions)
    async with server.connection() as connection:
        for path in RECORDED:
            for verb in ("filter", "prioritize"):
                reply = await connection.post(f"/scheduler/{verb}", path.read_bytes())
                assert reply.status == 200


def test_recorded_requests_cover_both_versions_and_modes():
    kinds = {tuple(path.stem.split("-")[:2]) for path in RECORDED}
    assert kinds == {("v1.20", "names"), ("v1.20", "nodes"), ("v1.36", "names"), ("v1.36", "nodes")}
