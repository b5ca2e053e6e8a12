"""A pod whose successor could not run on another node stays, and it is said why."""

import msgspec
import pytest

from evaluator.core.cache.cluster import decode_pod
from evaluator.features.evictions import successors
from evaluator.features.evictions.neighbours import Neighbours
from evaluator.features.evictions.successors import KnownPods
from tests.evaluator.features.evictions.test_plan import node, planned_for

HOST = "kubernetes.io/hostname"


def pod(name, on, app="quorum", *, namespace="ns", apart=None, spread=(), port=0, **labels):
    terms = [] if apart is None else [apart]
    port = {"ports": [{"containerPort": 80, "hostPort": port}]} if port else {}
    body = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "labels": {"app": app, "telemetry-policy": "demo", **labels},
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
            ],
        },
        "spec": {
            "nodeName": on,
            "containers": [{"name": "c", **port}],
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
            },
            "topologySpreadConstraints": list(spread),
        },
        "status": {"phase": "Running"},
    }
    return decode_pod(msgspec.json.encode(body))


def term(app="quorum", key=HOST, **more):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def skew(most=1, key=HOST, app="quorum", when="DoNotSchedule", **more):
    selector = {"matchLabels": {"app": app}}
    names = {"maxSkew": most, "topologyKey": key, "whenUnsatisfiable": when}
    return {**names, "labelSelector": selector, **more}


def nodes(**zones):
    """Nodes by name, each with its hostname and its zone."""
    return {name: node(name, labels={HOST: name, "zone": zone}) for name, zone in zones.items()}


ABC = nodes(a="east", b="east", c="west")


def obstacle(leaving, *others, among=ABC, alternatives=("b", "c"), **more):
    known = KnownPods(Neighbours.of([leaving, *others]), among, **more)
    return known.obstacle(leaving, alternatives)


def test_replica_on_each_node_kept_apart_stays():
    """Case 08."""
    one, two, three = (pod(f"q-{on}", on, apart=term()) for on in "abc")
    assert obstacle(one, two, three) == successors.ANTI_AFFINITY
    assert obstacle(one, two) == "", "c has none"


def test_leaving_pod_counts_for_nothing_against_its_own_successor():
    one = pod("q", "a", apart=term(key="zone"))
    assert obstacle(one, alternatives=["b"]) == "", "b is in its own zone"
    other = pod("r", "a", apart=term(key="zone"))
    assert obstacle(one, other, alternatives=["b"]) == successors.ANTI_AFFINITY


def test_anti_affinity_of_others_counts_too():
    plain, shy = pod("web", "a", app="web"), pod("shy", "b", app="shy", apart=term(app="web"))
    assert obstacle(plain, shy, alternatives=["b"]) == successors.ANTI_AFFINITY
    assert obstacle(plain, shy) == ""


@pytest.mark.parametrize(
    ("more", "keeps"),
    [({}, False), ({"namespaces": ["other"]}, True), ({"namespaceSelector": {}}, True), ({"namespaceSelector": {"matchLabels": {"x": "y"}}}, True)],
)  # fmt: skip
def test_namespaces_of_a_term(more, keeps):
    one = pod("q", "a", apart=term(**more))
    other = pod("q", "b", namespace="other")
    assert bool(obstacle(one, other, alternatives=["b"])) is keeps


def test_match_label_keys_select_pods_of_the_same_revision():
    own = term(matchLabelKeys=["pod-template-hash"])
    one = pod("q", "a", apart=own, **{"pod-template-hash": "1"})
    new = pod("r", "b", **{"pod-template-hash": "2"})
    old = pod("s", "b", **{"pod-template-hash": "1"})
    assert obstacle(one, new, alternatives=["b"]) == ""
    assert obstacle(one, old, alternatives=["b"]) == successors.ANTI_AFFINITY


@pytest.mark.parametrize(
    ("constraint", "stays"),
    [
        (skew(), True),  # a: 0 without it, b: 1, c: 1
        (skew(2), False),
        (skew(when="ScheduleAnyway"), False),
        (skew(app="other"), False),
        (skew(key="zone"), False),  # b is in its own zone
        (skew(key="rack"), True),  # no node has that label
        (skew(2, minDomains=4), False),
        (skew(1, minDomains=4), True),
    ],
)
def test_topology_spread(constraint, stays):
    one = pod("q-a", "a", spread=[constraint])
    found = obstacle(one, pod("q-b", "b"), pod("q-c", "c"))
    assert found == (successors.SPREAD if stays else "")


def test_host_port_that_is_used_on_every_other_node_keeps_the_pod():
    one = pod("q", "a", port=80)
    taken = [pod(f"other-{on}", on, app="other", port=80) for on in "bc"]
    assert obstacle(one, *taken) == successors.PORTS
    assert obstacle(one, taken[0]) == ""
    assert obstacle(one, *(pod(f"o-{on}", on, app="other", port=81) for on in "bc")) == ""


def test_free_requests_count_where_they_are_known():
    one = pod("q", "a")
    assert obstacle(one, has_room=lambda _pod, on: on == "a") == successors.ROOM
    assert obstacle(one, has_room=lambda _pod, on: on == "c") == ""


def test_reasons_that_only_together_keep_a_pod_are_said_so():
    one = pod("q", "a", apart=term(), port=80)
    apart, port = pod("r", "b"), pod("p", "c", app="p", port=80)
    assert obstacle(one, apart, port) == successors.TOGETHER


def test_pod_whose_constraints_cannot_be_read_stays():
    odd = pod("q", "a", apart={"topologyKey": 7})
    assert obstacle(odd) == successors.UNREADABLE


def test_plan_names_the_pods_that_stay_for_it():
    one = pod("q", "sick", apart=term())
    others = [pod("r", "well", apart=term())]
    among = {
        n.metadata.name: n
        for n in (node("sick", labels={HOST: "s"}), node("well", labels={HOST: "w"}))
    }
    known = KnownPods(Neighbours.of([one, *others]), among)
    (plan,) = planned_for([one, *others], list(among.values()), successors=known)
    assert plan.stays == {successors.ANTI_AFFINITY: [one]}


def test_pods_of_a_workload_share_their_constraints():
    """Memory: one object for all pods of a workload, of which there may be thousands."""
    assert pod("q-1", "a", apart=term()).spec.apart is pod("q-2", "b", apart=term()).spec.apart
