"""Pods keep others from their nodes by anti-affinity and host ports, as kube-scheduler has it."""

import pytest

from sandbox.scheduler.fitting import fit
from sandbox.scheduler.neighbours import obstacle

HOST = "kubernetes.io/hostname"
NODES = {
    name: {"metadata": {"name": name, "labels": {HOST: name, "zone": zone}}}
    for name, zone in (("a", "east"), ("b", "east"), ("c", "west"))
}


def pod(name, app="q", *, apart="", key=HOST, port=0, namespace="ns"):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": apart}}}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term] if apart else []}
    ports = [{"hostPort": port}] if port else []
    return {
        "metadata": {"name": name, "uid": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {
            "containers": [{"name": "c", "ports": ports}],
            "affinity": {"podAntiAffinity": affinity},
        },
    }


@pytest.mark.parametrize(
    ("new", "other", "free"),
    [
        (pod("new", apart="q"), pod("old"), "bc"),
        (pod("new", apart="q", key="zone"), pod("old"), "c"),
        (pod("new", apart="q", key="rack"), pod("old"), "abc"),
        (pod("new", apart="other"), pod("old"), "abc"),
        (pod("new", apart="q"), pod("old", namespace="elsewhere"), "abc"),
        (pod("new"), pod("old", apart="q"), "bc"),
        (pod("new", port=80), pod("old", port=80), "bc"),
        (pod("new", port=80), pod("old", port=81), "abc"),
    ],
)
def test_nodes_that_others_leave_free(new, other, free):
    placed = [("a", other)]
    assert "".join(n for n in NODES if not obstacle(new, NODES[n], placed, NODES)) == free


def test_reasons_are_those_of_kube_scheduler():
    new, other = pod("new", apart="q"), pod("old", port=80)

    def reason(new, other):
        def against(pod, node):
            return obstacle(pod, node, [("a", other)], NODES)

        return fit(new, [NODES["a"]], {}, against).refused["a"]

    assert reason(new, other) == ("node(s) didn't match pod anti-affinity rules",)
    assert reason(pod("new"), pod("old", apart="q")) == (
        "node(s) didn't satisfy existing pods anti-affinity rules",
    )
    assert reason(pod("new", port=80), other) == (
        "node(s) didn't have free ports for the requested pod ports",
    )


def spread(name, node="", *, skew=1, key=HOST, app="q", **more):
    """A pod with a topology spread constraint about its own app."""
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }
    made = pod(name, app)
    made["spec"] |= {"topologySpreadConstraints": [constraint]}
    return made


@pytest.mark.parametrize(
    ("new", "on", "free"),
    [
        (spread("new"), "", "abc"),
        (spread("new"), "a", "bc"),
        (spread("new"), "abc", "abc"),
        (spread("new", skew=2), "a", "abc"),
        (spread("new", key="zone"), "a", "c"),
        (spread("new", key="zone", minDomains=3), "c", "ab"),
        (spread("new", key="zone", minDomains=3), "ac", ""),
        (spread("new", key="rack"), "", ""),
        (spread("new", whenUnsatisfiable="ScheduleAnyway"), "a", "abc"),
        (spread("new", app="other"), "a", "abc"),
        (spread("new", labelSelector=None), "a", "abc"),
    ],
)
def test_nodes_on_which_a_pod_is_spread(new, on, free):
    placed = [(node, pod(f"old-{number}")) for number, node in enumerate(on)]
    found = [n for n in NODES if not obstacle(new, NODES[n], placed, NODES)]
    assert "".join(found) == free


def test_pods_that_leave_and_nodes_that_do_not_match_count_for_no_spread():
    leaving = pod("old")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert obstacle(spread("new"), NODES["a"], [("a", leaving)], NODES) is None
    chosen = spread("new")
    chosen["spec"]["nodeSelector"] = {"zone": "east"}
    both = [("a", pod("one")), ("b", pod("two"))]
    assert obstacle(chosen, NODES["a"], both, NODES) is None
    assert "topology spread" in obstacle(spread("new"), NODES["a"], both, NODES)
