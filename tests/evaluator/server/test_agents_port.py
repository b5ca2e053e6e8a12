"""The agents' port as configured by flags: certificate files, authentication, and known nodes."""

import pytest

from evaluator.cache.cluster import ClusterCache
from evaluator.config import Settings
from evaluator.model.objects import Node, ObjectMeta
from evaluator.server import agents_port
from evaluator.tls.reload import TlsError


def settings(**given):
    return Settings(**{"cert": "/no/c", "key": "/no/k", "cacert": "/no/a", **given})


def test_plain_text_needs_no_files():
    assert agents_port.certificates(settings(unsafe=True)) is None
    assert agents_port.certificates(settings(agent_unsafe=True)) is None


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, "/no/c with key /no/k"),
        ({"agent_cert": "/no/x", "agent_key": "/no/y"}, "/no/x with key /no/y"),
        ({"agent_cert": "/no/x", "agent_key": "/no/y", "unsafe": True}, "/no/x with key /no/y"),
    ],
)
def test_agent_port_uses_the_scheduler_certificates_by_default(given, names):
    with pytest.raises(TlsError, match=names):
        agents_port.certificates(settings(**given))


def test_node_must_exist_once_nodes_are_listed():
    cluster = ClusterCache()
    verifier = agents_port.verifier(settings(unsafe=True), cluster, authority=None)
    assert verifier.missing("node-a") is None, "the nodes are not known yet"
    cluster.nodes.replace([Node(ObjectMeta(name="node-b", uid="u"))])
    assert verifier.missing("node-b") is None
    assert verifier.missing("node-a").sentence == "there is no node node-a in the cluster"
    cluster.nodes.put(Node(ObjectMeta(name="node-a", uid="v")))
    assert verifier.missing("node-a") is None
