"""Questions and denials have the fields and words of Kubernetes."""

from evaluator.core.access.user import (
    NonResourceAttributes,
    ResourceAttributes,
    User,
    denial,
    review_spec,
)

METRIC = ResourceAttributes(
    group="custom.metrics.k8s.io", version="v1beta2", resource="nodes", subresource="m", name="*"
)


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
