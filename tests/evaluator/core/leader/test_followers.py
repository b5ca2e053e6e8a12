"""A follower sends no write, whatever calls the client."""

import inspect

import pytest

from evaluator.core.kube.client import Kube
from evaluator.core.kube.resources import NODES
from evaluator.core.leader.write_fence import NotLeaderError, WriteFence
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.node_labels import LabelApply

KEY = PolicyKey("default", "demo")
OBJECT = {"metadata": {"namespace": "default", "name": "x", "resourceVersion": "1"}, "spec": {}}

CALLS = {
    name: method
    for name, method in inspect.getmembers(Kube, inspect.isfunction)
    if not name.startswith("_") and name != "close"
}
ALLOWED = {
    "review_token": "changes nothing, and every replica authenticates its own clients",
    "review_access": "changes nothing, and every replica authorizes its own clients",
    "write_lease": "every replica may try to become the leader",
}
"""Writes that a follower may send, and why."""

ARGUMENTS = {
    "apply": LabelApply("n", "u", {}),
    "key": KEY,
    "resource": NODES,
    "timeout": 60.0,
    **dict.fromkeys(("node", "status", "event", "changes", "body", "annotations"), OBJECT),
    "fields": [],
    "operations": [],
}
"""Arguments by parameter name; any other is a string."""
OTHERS = {
    "apply_node_annotations": {"node": Node(NodeMeta(name="n", uid="u"))},
    "patch_secret": {"data": {}},
    "get_raw": {"path": "/apis/g/v1/m", "largest": 10_000},
}
"""Arguments of methods that take other kinds."""


@pytest.fixture
async def kube(stub_server, answer, connect):
    stub_server.otherwise(answer.says(200, OBJECT))
    return await connect(stub_server.url)


async def call(kube, name):
    """Call a method of Kube with an argument for each required parameter."""
    arguments = ARGUMENTS | OTHERS.get(name, {})
    parameters = inspect.signature(CALLS[name]).parameters.values()
    required = [one for one in parameters if one.default is one.empty and one.name != "self"]
    positional = [
        arguments.get(one.name, "x") for one in required if one.kind is not one.KEYWORD_ONLY
    ]
    named = {
        one.name: arguments.get(one.name, "x") for one in required if one.kind is one.KEYWORD_ONLY
    }
    answered = CALLS[name](kube, *positional, **named)
    if inspect.isasyncgen(answered):
        return [line async for line in answered]
    return await answered


@pytest.mark.parametrize("name", sorted(CALLS.keys() - ALLOWED.keys()))
async def test_follower_sends_only_reads(stub_server, kube, name):
    """Each method of Kube either reads, or sends nothing until the replica leads."""
    fence = WriteFence()
    kube.fence = fence.write
    try:
        await call(kube, name)
    except NotLeaderError:
        assert stub_server.asked == []
        fence.extend()
        await call(kube, name)
        assert len(stub_server.asked) == 1
        assert stub_server.asked[0].method != "GET"
    else:
        assert {asked.method for asked in stub_server.asked} == {"GET"}


async def test_follower_may_write_the_lease(stub_server, kube):
    kube.fence = WriteFence().write
    await kube.write_lease(OBJECT)
    assert [(asked.method, asked.path.rpartition("/")[2]) for asked in stub_server.asked] == [
        ("PUT", "x")
    ]
