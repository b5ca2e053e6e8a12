"""What is wrong with an APIService, and the next step, in words."""

import base64

import msgspec
import pytest

from evaluator.tools.check_apiservice import verdict
from evaluator.tools.check_apiservice.verdict import APIService, Installation, State

NAME = "v1beta2.custom.metrics.k8s.io"
OURS = {"namespace": "plimsoll", "name": "plimsoll-evaluator", "port": 9444}
X509 = "Get https://10.0.0.1:9444: tls: failed to verify certificate: x509: certificate signed by unknown authority"


def judge(
    reason="", message="", *, failure="", service=OURS, status="False", bundle="", ca=None, **meta
):
    available = {"type": "Available", "status": status, "reason": reason, "message": message}
    body = {
        "metadata": meta,
        "spec": {"service": service, "caBundle": base64.b64encode(bundle.encode()).decode()},
        "status": {"conditions": [available] if reason else None},
    }
    found = msgspec.convert(body, APIService)
    installed = Installation("plimsoll/plimsoll-evaluator", "plimsoll-extender-tls", ca)
    return verdict.judge(NAME, found, installed, failure)


def test_available_service_needs_no_step():
    found = judge("Passed", "all checks passed", status="True")
    assert (found.state, found.steps) == (State.AVAILABLE, ())
    assert found.sentence == f"{NAME}: served by plimsoll/plimsoll-evaluator, available"


def test_failing_requests_beside_a_true_condition_lead_to_the_ca():
    """API servers that verify no certificate for the condition say of the request only that it failed."""
    found = judge("Passed", "all checks passed", status="True", failure="503 Service Unavailable")
    assert found.steps[0].startswith("caBundle is empty")


def test_failed_request_counts_more_than_the_condition():
    found = judge("Passed", "all checks passed", status="True", failure=f"GET /apis: 503 {X509}")
    assert found.state is State.UNAVAILABLE
    assert "requests fail: GET /apis: 503" in found.sentence
    assert "cainjector has not filled it in" in found.steps[0]


@pytest.mark.parametrize(
    ("service", "owner"),
    [
        (
            {"namespace": "monitoring", "name": "prometheus-adapter"},
            "the Service monitoring/prometheus-adapter (Helm release adapter)",
        ),
        ({**OURS, "namespace": "other"}, "the Service other/plimsoll-evaluator"),
        (None, "the API server itself"),
    ],
)
def test_service_of_another_program_is_named(service, owner):
    annotations = {"meta.helm.sh/release-name": "adapter"}
    found = judge("Passed", service=service, status="True", annotations=annotations)
    assert found.state is State.TAKEN
    assert owner in found.sentence
    assert found.sentence.endswith(", available")
    assert "would take the API over" in found.steps[0]


@pytest.mark.parametrize(
    ("reason", "message", "step"),
    [
        ("ServiceNotFound", 'service/x in "plimsoll" is not present', "apply the evaluator"),
        ("ServicePortError", "not listening on port 9444", "apply the evaluator"),
        ("MissingEndpoints", "no addresses", "no ready replica has port 9444. During a rollout"),
        ("FailedDiscoveryCheck", "bad status from https://x: 401", "front proxy"),
        ("FailedDiscoveryCheck", "remote error: tls: unknown certificate authority", "front proxy"),
        (
            "FailedDiscoveryCheck",
            "context deadline exceeded",
            "does not reach the pods on port 9444",
        ),
        ("FailedDiscoveryCheck", X509, "cainjector has not filled it in"),
    ],
)
def test_reason_leads_to_the_next_step(reason, message, step):
    found = judge(reason, message)
    assert found.state is State.UNAVAILABLE
    assert message in found.sentence
    assert step in found.steps[0]
    assert found.steps[-1].endswith(f"kubectl delete apiservice {NAME}")


def test_unchecked_service_is_not_available():
    assert "not available: not checked yet" in judge().sentence


def test_bundle_is_compared_with_the_ca_of_the_secret(authority, untrusted):
    ca, other = authority.file.read_text(), untrusted.file.read_text()
    wrong = judge("FailedDiscoveryCheck", X509, bundle=other, ca=ca)
    assert "caBundle is not the CA in the secret plimsoll/plimsoll-extender-tls" in wrong.steps[0]
    assert f"kubectl patch apiservice {NAME}" in wrong.steps[1]
    right = judge("FailedDiscoveryCheck", X509, bundle=f"{other}{ca}", ca=ca)
    assert "lack the name plimsoll-evaluator.plimsoll.svc" in right.steps[0]
    unread = judge("FailedDiscoveryCheck", X509, bundle=ca)
    assert "does not exist or this account may not read" in unread.steps[0]


@pytest.mark.parametrize("pem", ["", "x", "-----BEGIN CERTIFICATE-----\n%%%a\n"])
def test_text_without_certificates_has_none(pem):
    assert verdict.certificates(pem) == frozenset()


@pytest.mark.parametrize(
    ("states", "says", "status"),
    [
        ([State.FREE, State.FREE], "is free", 0),
        ([State.AVAILABLE, State.AVAILABLE], "served by Plimsoll", 0),
        ([State.AVAILABLE, State.FREE], "Only one version", 1),
        ([State.AVAILABLE, State.UNAVAILABLE], "does not work", 1),
        ([State.TAKEN, State.AVAILABLE], "another program", 1),
    ],
)
def test_conclusion_has_the_exit_status(states, says, status):
    sentence, found = verdict.conclusion([verdict.Verdict(state, "") for state in states])
    assert says in sentence
    assert found == status
