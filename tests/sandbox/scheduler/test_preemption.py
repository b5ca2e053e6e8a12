"""Which pods kube-scheduler would delete, and what it asks extenders about them."""

import json

import pytest

from sandbox.scheduler import preemption
from sandbox.scheduler.extender import ExtenderError, preemption_arguments, remaining
from sandbox.scheduler.preemption import Victims


def a_node(name="n", cpu="4", **spec):
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "pods": "9"}},
    }


def a_pod(name, cpu="1", priority=0, started="", **spec):
    container = {"resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": started}
    return {"metadata": meta, "spec": {"containers": [container], "priority": priority, **spec}}


def on(node, *pods):
    return [(node, pod) for pod in pods]


def names(victims):
    return {node: [pod["metadata"]["name"] for pod in one.pods] for node, one in victims.items()}


def test_fewest_pods_of_the_lowest_priorities_leave():
    placed = on("n", a_pod("top", "1", 100), a_pod("mid", "1", 5), a_pod("a", "1"), a_pod("b", "1"))
    found = preemption.candidates(a_pod("new", "2", 10), [a_node()], placed)
    assert names(found) == {"n": ["a", "b"]}


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        (a_pod("new", "2", 0), a_node()),
        (a_pod("new", "5", 10), a_node()),
        (a_pod("new", "1", 10), a_node(cpu="6")),
        (a_pod("new", "2", 10), a_node(unschedulable=True)),
    ],
    ids=["no lower priority", "too large", "fits already", "not feasible"],
)
def test_node_that_preemption_cannot_help_is_no_candidate(pod, node):
    placed = on("n", a_pod("a", "2"), a_pod("b", "2"))
    assert preemption.candidates(pod, [node], placed) == {}


@pytest.mark.parametrize(
    ("others", "chosen"),
    [
        ({"x": [a_pod("a", priority=5)], "y": [a_pod("b"), a_pod("c")]}, "y"),
        ({"x": [a_pod("a"), a_pod("b")], "y": [a_pod("c")]}, "y"),
        ({"x": [a_pod("a", started="2026-01-01")], "y": [a_pod("b", started="2026-01-02")]}, "y"),
        ({"x": [a_pod("a", priority=-5)], "y": [a_pod("b", priority=-6)]}, "y"),
    ],
    ids=["lowest priority", "fewest", "youngest", "negative"],
)
def test_node_whose_victims_matter_least_is_chosen(others, chosen):
    found = {node: Victims(tuple(pods)) for node, pods in others.items()}
    assert preemption.best(found) == chosen


def budget(allowed, namespace="ns"):
    selector = {"matchLabels": {"app": "db"}}
    meta = {"name": "db", "namespace": namespace}
    return {
        "metadata": meta,
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(
    ("budgets", "leaves", "violations"),
    [
        ([], "b", 0),
        ([budget(1)], "b", 0),
        ([budget(0)], "a", 0),
        ([budget(0, "other")], "b", 0),
        ([budget(1), budget(0)], "a", 0),
    ],
)
def test_pod_of_an_exhausted_budget_stays_if_another_can_leave(budgets, leaves, violations):
    placed = on("n", a_pod("a", "2", started="1"), a_pod("b", "2", started="2"))
    placed[1][1]["metadata"] |= {"namespace": "ns", "labels": {"app": "db"}}
    found = preemption.candidates(a_pod("new", "2", 10), [a_node()], placed, budgets)
    assert (names(found), found["n"].violations) == ({"n": [leaves]}, violations)


def test_node_without_an_exhausted_budget_is_chosen():
    found = {"x": Victims((a_pod("a"),), 1), "y": Victims((a_pod("b", priority=5), a_pod("c")))}
    assert preemption.best(found) == "y"


def test_pod_waits_while_its_victims_end():
    ending = a_pod("a")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pod = a_pod("new", priority=10) | {"status": {"nominatedNodeName": "n"}}
    assert not preemption.may_preempt(pod, on("n", ending))
    assert preemption.may_preempt(pod, on("m", ending))
    never = a_pod("new", priority=10, preemptionPolicy="Never")
    assert not preemption.may_preempt(never, [])


VICTIMS = {"n": Victims((a_pod("a"), a_pod("b"))), "m": Victims((a_pod("c"),), 1)}


@pytest.mark.parametrize("names_only", [True, False])
def test_victims_are_sent_as_kube_scheduler_sends_them(names_only):
    pod = a_pod("new")
    sent = json.loads(preemption_arguments(pod, VICTIMS, node_cache_capable=names_only))
    pods = [{"UID": "uid-c"}] if names_only else [a_pod("c")]
    used, unused = "NodeNameToVictims", "NodeNameToMetaVictims"
    if names_only:
        used, unused = unused, used
    assert (sent["Pod"], sent[unused]) == (pod, None)
    assert sent[used]["m"] == {"Pods": pods, "NumPDBViolations": 1}


def test_remaining_candidates_are_decoded():
    reply = {"nodenametometavictims": {"n": {"Pods": [{"UID": "uid-b"}], "NumPDBViolations": 0}}}
    assert names(remaining(reply, VICTIMS)) == {"n": ["b"]}
    assert remaining({"NodeNameToMetaVictims": None}, VICTIMS) == {}


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ([], "not an object"),
        ({"NodeNameToMetaVictims": {"n": {"Pods": []}}}, "expected at least one victim"),
        ({"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "x"}]}}}, "no victim 'x'"),
        ({"NodeNameToMetaVictims": {"z": {"Pods": [{"UID": "uid-a"}]}}}, "'z' has no victim"),
    ],
)
def test_other_replies_fail_the_preemption(reply, says):
    with pytest.raises(ExtenderError, match=says):
        remaining(reply, VICTIMS)
