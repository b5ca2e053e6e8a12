"""The agents' port as configured by flags: certificate files, authentication, and known nodes."""

import pytest

from evaluator.config import Settings
from evaluator.core.sources.agents import authn
from evaluator.core.sources.agents.tls import Files
from evaluator.core.tls import TlsError

DEFAULT = Files("/no/c", "/no/k", "/no/a")


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, "/no/c with key /no/k"),
        ({"agent_cert": "/no/x", "agent_key": "/no/y"}, "/no/x with key /no/y"),
    ],
)
def test_agent_port_uses_the_scheduler_certificates_by_default(given, names):
    with pytest.raises(TlsError, match=names):
        authn.certificates(Settings(**given), DEFAULT)


def test_a_node_must_exist():
    authorizer = authn.authorizer(
        Settings(), None, plain=True, exists=lambda node: node == "node-b"
    )
    assert authorizer.missing("node-b") is None
    assert authorizer.missing("node-a").sentence == "there is no node node-a in the cluster"
