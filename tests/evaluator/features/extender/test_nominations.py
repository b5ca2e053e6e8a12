"""The status of a policy names pods that kube-scheduler nominated to a node which the policy refuses."""

import msgspec
import pytest

from evaluator.core.model.pod import Pod
from evaluator.core.policy.decide import decide
from evaluator.core.policy_status import PolicyPart
from evaluator.core.readings.store import Store
from evaluator.core.signals import PolicyPodChanged, PolicyReportChanged
from evaluator.features.extender.nominations import Nominations
from tests.clock import Clock
from wire.codec import Delta


def pod(name, node="", *, bound="", requests=True):
    """A waiting pod as the API server has it."""
    resources = {"limits": {"telemetry/scheduling": "1"}} if requests else {}
    meta = {"name": name, "namespace": "ns", "uid": name, "labels": {"telemetry-policy": "demo"}}
    spec = {"containers": [{"name": "c", "resources": resources}], "nodeName": bound}
    status = {"phase": "Pending", "nominatedNodeName": node}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Pod)


@pytest.fixture
def decision(parsed, rule):
    """Of ns/demo, which `hot` violates."""
    policy = parsed(dontschedule=[rule("m GreaterThan 5")])
    store = Store(stale_after=30.0, started=0.0)
    store.subscribe(["m"])
    for node, value in (("hot", 9.0), ("cool", 1.0)):
        store.report(node, Delta({"m": value}), 1000.0)
    return decide([policy], ("cool", "hot"), store, now=1000.0).policies[policy.key]


@pytest.fixture
def published():
    return []


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def nominations(published, clock):
    return Nominations(published.append, clock)


def test_pods_nominated_to_refused_nodes_are_named(nominations, decision, published):
    for name, node in (("b", "hot"), ("a", "hot"), ("c", "cool"), ("d", "")):
        nominations.changed(PolicyPodChanged(None, pod(name, node)))
    assert published == [PolicyReportChanged()] * 3
    (problem,) = nominations.part(decision).varying_problems
    assert problem.startswith(
        "2 pods are nominated to a node that the policy refuses (a to hot, b to hot): "
    )


@pytest.mark.parametrize(
    "after",
    [
        None,
        pod("a"),
        pod("a", "cool"),
        pod("a", "hot", bound="hot"),
        pod("a", "hot", requests=False),
    ],
    ids=["deleted", "not nominated", "permitted", "bound", "without the extender"],
)
def test_nomination_that_ended_is_named_no_more(nominations, decision, after):
    before = pod("a", "hot")
    nominations.changed(PolicyPodChanged(None, before))
    assert nominations.part(decision) != PolicyPart()
    nominations.changed(PolicyPodChanged(before, after))
    assert nominations.part(decision) == PolicyPart()


def test_nomination_that_is_repeated_is_named_until_it_is_not_repeated_for_a_minute(
    nominations, decision, clock
):
    waits, nominated = pod("a"), pod("a", "hot")
    for _ in range(2):
        nominations.changed(PolicyPodChanged(waits, nominated))
        assert nominations.part(decision) != PolicyPart()
        clock.now += 0.2
        nominations.changed(PolicyPodChanged(nominated, waits))
    assert nominations.part(decision) != PolicyPart()
    clock.now += 59.0
    assert nominations.part(decision) != PolicyPart()
    clock.now += 2.0
    assert nominations.part(decision) == PolicyPart()
    nominations.changed(PolicyPodChanged(waits, nominated))
    nominations.changed(PolicyPodChanged(nominated, waits))
    assert nominations.part(decision) == PolicyPart()


@pytest.mark.parametrize("after", [None, pod("a", bound="cool")], ids=["deleted", "bound"])
def test_repeated_nomination_of_a_pod_that_waits_no_more_is_forgotten(nominations, decision, after):
    waits, nominated = pod("a"), pod("a", "hot")
    for _ in range(2):
        nominations.changed(PolicyPodChanged(waits, nominated))
        nominations.changed(PolicyPodChanged(nominated, waits))
    nominations.changed(PolicyPodChanged(waits, after))
    assert nominations.part(decision) == PolicyPart()
