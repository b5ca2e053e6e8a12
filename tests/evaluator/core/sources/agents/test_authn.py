"""The node that a certificate or token stands for, and that it must exist; the files of the port's own certificate."""

import pytest

from evaluator.config import Settings
from evaluator.core.access.user import InvalidTokenError
from evaluator.core.model.api_status import ReviewedUser, TokenReview
from evaluator.core.sources.agents.authn import (
    Bound,
    authorizer,
    bound,
    is_node_name,
    node_names,
)
from evaluator.core.sources.agents.certificates import port_certificates
from evaluator.core.sources.agents.grpc_port import bearer, certified
from evaluator.core.tls import Files, TlsError

NODE = "authentication.kubernetes.io/node-name"
POD = "authentication.kubernetes.io/pod-name"
UID = "authentication.kubernetes.io/pod-uid"
AGENT = "system:serviceaccount:plimsoll:plimsoll-agent"


@pytest.mark.parametrize(
    ("auth", "nodes"),
    [
        ({"x509_common_name": [b"node-a"]}, {"node-a"}),
        ({"x509_common_name": [b"system:node:node-a"]}, {"node-a"}),
        ({"x509_common_name": [b"agents"], "peer_dns": [b"node-a"]}, {"agents", "node-a"}),
        ({"x509_common_name": [b""], "peer_dns": [b"node-a", b"node-b"]}, {"node-a", "node-b"}),
        ({"x509_common_name": [b"node-a\0.evil"]}, {"node-a\0.evil"}),
        ({"x509_common_name": [b"system:node:"]}, set()),
        (
            {"x509_subject_alternative_name": [b"node-a"]},
            set(),
        ),  # might be a URI or an email address
        ({"transport_security_type": [b"ssl"]}, set()),
        ({}, set()),
    ],
)
def test_certificate_identifies_by_common_name_and_dns_names(auth, nodes):
    assert node_names(certified(auth)) == nodes


@pytest.mark.parametrize(
    ("metadata", "token"),
    [
        ([("user-agent", "x"), ("authorization", "Bearer abc")], "abc"),
        ([("authorization", "bearer  abc ")], "abc"),
        ([("authorization", "Basic abc")], ""),
        ([("authorization", "Bearer")], ""),
        ([("authorization-bin", b"Bearer abc")], ""),
        ([], ""),
    ],
)
def test_token_is_read_from_the_metadata(metadata, token):
    assert bearer(metadata) == token


def review(extra=None, *, authenticated=True, audiences=("us",), username=AGENT, error=""):
    user = ReviewedUser(username, {name: [value] for name, value in (extra or {}).items()})
    return TokenReview(authenticated, user, list(audiences), error)


def ask(found):
    return bound(found, audience="us", account="plimsoll/plimsoll-agent")


def test_token_is_bound_to_a_node():
    assert ask(review({NODE: "node-a"})).node == "node-a"


def test_token_before_kubernetes_1_30_names_its_pod_only():
    assert ask(review({POD: "agent-x", UID: "u"})) == Bound("plimsoll", "", "agent-x", "u")


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (review({NODE: "a"}, authenticated=False, error="it has expired"), "it has expired"),
        (review({NODE: "a"}, authenticated=False), "not valid"),
        (review({NODE: "a"}, audiences=["api"]), "not for the audience us"),
        (review({NODE: "a"}, audiences=[]), "not for the audience us"),
        (review({NODE: "a"}, username="system:serviceaccount:default:default"), "default:default"),
        (review({NODE: "a"}, username="plimsoll:plimsoll-agent"), "not ServiceAccount"),
        (review({NODE: "a"}, username="system:node:a"), "system:node:a's"),
        (review(), "bound to neither a node"),
        (review({POD: "agent-x"}), "bound to neither a node"),
        (review({NODE: ""}), "bound to neither a node"),
        (TokenReview(), "not valid"),
    ],
)
def test_other_tokens_are_rejected(found, sentence):
    with pytest.raises(InvalidTokenError, match=sentence):
        ask(found)


@pytest.mark.parametrize(
    "name", ["node-a", "a", "0", "ip-10-0-0-1.eu-west-1.compute.internal", "a" * 253, "a--b.c"]
)
def test_valid_node_names_are_accepted(name):
    assert is_node_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "Node", "node_a", "-a", "a-", ".a", "a.", "a..b", "a.-b", "a b", "a\n", "ä", "a" * 254],
)
def test_invalid_node_names_are_rejected(name):
    assert not is_node_name(name)


def test_a_node_must_exist():
    known = authorizer(Settings(), None, plain=True, exists=lambda node: node == "node-b")
    assert known.missing("node-b") is None
    assert known.missing("node-a").sentence == "there is no node node-a in the cluster"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, "/no/c with key /no/k"),
        ({"agent_cert": "/no/x", "agent_key": "/no/y"}, "/no/x with key /no/y"),
    ],
)
def test_agent_port_uses_the_scheduler_certificates_by_default(given, names):
    with pytest.raises(TlsError, match=names):
        port_certificates(Settings(**given), Files("/no/c", "/no/k", "/no/a"))
