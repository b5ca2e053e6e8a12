"""To which pods a policy applies, and what the others are told to change."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.policy_pods import (
    NotApplied,
    PodsByPolicy,
    event,
    pod_counts,
    pods_elsewhere,
    policy_of,
    why_not_applied,
)
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod, PodMeta, PodSpec

NAMES = ("one", "two", "three")


REQUEST = {"requests": {"telemetry/scheduling": "1"}}
LIMIT = {"limits": {"telemetry/scheduling": "1"}}
KEY = PolicyKey("ns", "demo")


def pod(name="p", policy="demo", namespace="ns", *, phase="Pending", resources=LIMIT, **spec):
    labels = {"telemetry-policy": policy}
    body = {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "resources": resources}], **spec},
        "status": {"phase": phase},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


@pytest.fixture
def count(parsed, rule):
    def run(*pods, policies=None):
        cluster = ClusterCache()
        cluster.pods.replace(list(pods))
        policies = policies or [parsed(dontschedule=[rule("m Equals 1")])]
        pods = cluster.requesting, cluster.not_requesting
        elsewhere = pods_elsewhere("demo", {p.key for p in policies}, *pods)
        return pod_counts(policies[0], elsewhere, *pods)

    return run


@pytest.mark.parametrize(
    "spec",
    [
        {"resources": LIMIT},
        {"resources": REQUEST},
        {"resources": {}, "initContainers": [{"name": "i", "resources": LIMIT}]},
    ],
    ids=["limit", "request", "init container"],
)
def test_request_of_any_container_counts(count, spec):
    assert count(pod(**spec)) == (1, 0)


@pytest.mark.parametrize("resources", [{}, None, {"limits": None}, {"limits": {"cpu": "1"}}])
def test_pod_without_the_request_is_ignored(count, resources):
    assert count(pod(resources=resources), pod("q")) == (1, 1)


def test_policy_without_scheduling_strategies_needs_no_request(count, parsed, rule):
    policy = parsed(deschedule=[rule("m Equals 1")])
    assert count(pod(resources={}), policies=[policy]) == (1, 0)


def test_pod_in_a_namespace_without_the_policy_is_ignored(count, parsed, rule):
    there = [pod(namespace="other"), pod("q", namespace="other", resources={})]
    assert count(pod(), *there) == (1, 2)
    rules = [rule("m Equals 1")]
    both = [parsed(dontschedule=rules), parsed("demo", "other", dontschedule=rules)]
    assert count(pod(), *there, policies=both) == (1, 0)


def test_finished_and_terminating_pods_are_not_counted(count):
    bound = {"nodeName": "n"}
    assert count(pod(phase="Succeeded", **bound), pod("q", phase="Failed", **bound)) == (0, 0)
    gone = pod("r", **bound)
    gone.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert count(gone, pod("s", phase="Running", **bound)) == (1, 0)


def test_reason_says_what_is_missing(parsed, rule):
    policies = {KEY: parsed(dontschedule=[rule("m Equals 1")])}
    assert why_not_applied(KEY, policies, {"ns"}, requests=True) is None
    assert why_not_applied(KEY, policies, {"ns"}, requests=False) is NotApplied.NO_REQUEST
    other = PolicyKey("other", "demo")
    assert why_not_applied(other, policies, {"ns"}, requests=True) is NotApplied.OTHER_NAMESPACE
    assert why_not_applied(other, {}, (), requests=True) is NotApplied.NO_POLICY


def test_event_says_what_to_add():
    missing = event(KEY, NotApplied.NO_REQUEST)
    assert (missing.type, missing.reason) == ("Warning", "PolicyNotApplied")
    assert 'add `telemetry/scheduling: "1"` to resources.limits of a container' in missing.message
    other = event(KEY, NotApplied.OTHER_NAMESPACE).message
    assert "applies to pods of its own namespace: create it there too" in other


def test_similar_policy_name_is_suggested():
    names = {"demo-policy", "unrelated"}
    assert event(PolicyKey("ns", "demo-polcy"), NotApplied.NO_POLICY, names).message == (
        "policy demo-polcy does not exist in namespace ns: create it, or correct the pod's label telemetry-policy, "
        "such as telemetry-policy: demo-policy"
    )
    assert "such as" not in event(KEY, NotApplied.NO_POLICY, {"unrelated"}).message


def running_pod(name, policy, node):
    labels = {"telemetry-policy": policy} if policy else None
    return Pod(PodMeta(name=name, namespace="ns", labels=labels), PodSpec(node_name=node))


def test_pods_are_indexed_by_policy_of_their_own_namespace():
    assert policy_of(running_pod("one", "demo", "")) == PolicyKey("ns", "demo")
    assert policy_of(running_pod("one", None, "")) is None


states = st.none() | st.tuples(st.sampled_from(["demo", "other", None]), st.sampled_from(["", "n"]))


@given(st.lists(st.tuples(st.sampled_from(NAMES), states)))
def test_index_holds_exactly_the_existing_pods(changes):
    linked, there = PodsByPolicy(lambda pod: pod.running), {}
    keys = [PolicyKey("ns", name) for name in ("demo", "other")]
    seen = {key: {} for key in keys}
    for name, state in changes:
        after = running_pod(name, *state) if state else None
        linked.change(there.pop(name, None), after)
        if after:
            there[name] = after
        for key in keys:
            right = [one for one in there.values() if one.running and policy_of(one) == key]
            found = sorted(linked.pods_of(key), key=str)
            assert found == sorted(right, key=str)
            assert (linked.version(key) == 0) is not bool(right)
            before = seen[key].setdefault(linked.version(key), found)
            assert [id(one) for one in before] == [id(one) for one in found]
