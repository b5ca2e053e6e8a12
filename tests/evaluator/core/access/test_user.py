"""Questions and denials have the fields and words of Kubernetes; the front proxy's headers are read as k8s.io/apiserver does."""

import json

import pytest

from evaluator.core.access.user import (
    NonResourceAttributes,
    RequestHeaderError,
    ResourceAttributes,
    User,
    denial,
    parse_request_header,
    review_spec,
)
from plimsoll.http.parser import RequestParser

METRIC = ResourceAttributes(
    group="custom.metrics.k8s.io", version="v1beta2", resource="nodes", subresource="m", name="*"
)
DATA = {
    "client-ca-file": "users",
    "requestheader-client-ca-file": "PEM",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def test_question_about_a_metric_names_it_as_subresource():
    user = User("jane", "7", ("g",), (("scopes", ("a", "")),))
    assert review_spec(user, METRIC) == {
        "user": "jane",
        "uid": "7",
        "groups": ["g"],
        "extra": {"scopes": ["a", ""]},
        "resourceAttributes": {
            "verb": "get",
            "group": "custom.metrics.k8s.io",
            "version": "v1beta2",
            "resource": "nodes",
            "subresource": "m",
            "name": "*",
        },
    }


def test_question_about_a_path_has_nothing_else():
    path = NonResourceAttributes(path="/explain/policies")
    assert review_spec(User("jane"), path) == {
        "user": "jane",
        "nonResourceAttributes": {"path": "/explain/policies", "verb": "get"},
    }


def test_denial_reads_like_one_of_the_api_server():
    assert denial(User("jane"), METRIC) == (
        'forbidden: User "jane" cannot get resource "nodes/m" in API group "custom.metrics.k8s.io" at the cluster scope'
    )
    path = NonResourceAttributes(path="/metrics")
    assert denial(User("jane"), path, "no RBAC policy matched") == (
        'forbidden: User "jane" cannot get path "/metrics": no RBAC policy matched'
    )


def request(*headers):
    raw = "\r\n".join(["GET / HTTP/1.1", "Host: x", *headers, "", ""]).encode()
    return RequestParser(10_000).head(raw)[0]


def user(*headers, **data):
    return parse_request_header({**DATA, **data}).user(request(*headers))


def test_user_has_all_that_the_headers_name():
    found = user(
        "X-Remote-User: jane",
        "X-Remote-Uid: 7",
        "X-Remote-Group: a",
        "x-remote-group: b",
        "X-Remote-Extra-Scopes: one",
        "X-Remote-Extra-Scopes: two",
        "X-Remote-Extra-Example.com%2fTeam: core",
    )
    assert found == User(
        "jane",
        "7",
        ("a", "b", "system:authenticated"),
        (("example.com/team", ("core",)), ("scopes", ("one", "two"))),
    )


def test_comma_in_a_group_does_not_divide_it():
    """A user of the group `x, system:masters` must not become a member of system:masters."""
    for headers in (["x, system:masters"], ["x,system:masters", "y"]):
        found = user("X-Remote-User: jane", *(f"X-Remote-Group: {group}" for group in headers))
        assert found.groups == (*headers, "system:authenticated")
        assert not found.unrestricted


@pytest.mark.parametrize("headers", [(), ("X-Remote-Group: g",), ("X-Remote-User:",)])
def test_request_without_a_user_name_has_no_user(headers):
    assert user(*headers) is None


def test_names_beyond_ascii_are_utf8():
    assert user("X-Remote-User: jürgen").name == "jürgen"
    raw = b"GET / HTTP/1.1\r\nHost: x\r\nX-Remote-User: \xff\r\n\r\n"
    with pytest.raises(RequestHeaderError, match="x-remote-user is not UTF-8"):
        parse_request_header(DATA).user(RequestParser(1_000).head(raw)[0])


def test_malformed_escape_is_kept():
    found = user("X-Remote-User: jane", "X-Remote-Extra-a%2fb%zz: v")
    assert found.extra == (("a%2fb%zz", ("v",)),)


def test_anonymous_user_stays_anonymous():
    found = user("X-Remote-User: system:anonymous", "X-Remote-Group: system:unauthenticated")
    assert found.anonymous
    assert found.groups == ("system:unauthenticated",)


def test_empty_list_of_names_allows_all():
    assert parse_request_header({**DATA, "requestheader-allowed-names": "[]"}).allows("any")
    config = parse_request_header(DATA)
    assert config.allows("front-proxy-client")
    assert not config.allows("kubelet")
    assert not config.allows("")


def test_api_server_without_front_proxy_has_no_configuration():
    assert parse_request_header({"client-ca-file": "users"}) is None


@pytest.mark.parametrize("text", ["front-proxy", '{"a":1}', "[1]", json.dumps("x")])
def test_malformed_key_is_named(text):
    with pytest.raises(RequestHeaderError, match="requestheader-allowed-names is not a JSON array"):
        parse_request_header({**DATA, "requestheader-allowed-names": text})
