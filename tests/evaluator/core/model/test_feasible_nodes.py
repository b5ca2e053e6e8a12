"""The cache of feasible nodes equals a fresh check of each node, without repeated checks."""

from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.feasibility import FeasibleNodes, is_feasible
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeSpec, NodeStatus
from evaluator.core.model.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodMeta,
    PodSpec,
    Requirement,
)


def node(name, disk="ssd", *, cordoned=False):
    ready = NodeStatus([NodeCondition("Ready", "True")])
    return Node(NodeMeta(name=name, labels={"disk": disk}), NodeSpec(unschedulable=cordoned), ready)


def pod(name="web", selector=None, only=None):
    affinity = None
    if only:
        term = NodeSelectorTerm(match_fields=[Requirement("metadata.name", "In", [only])])
        affinity = Affinity(NodeAffinity(NodeSelector([term])))
    return Pod(
        PodMeta(name=name, namespace="ns"), PodSpec(node_selector=selector, affinity=affinity)
    )


def caught_up(places):
    for _ in places.catching_up():
        pass


PODS = (pod(), pod(selector={"disk": "ssd"}), pod(selector={"disk": "hdd"}), pod(only="node-1"))
names = st.sampled_from(["node-0", "node-1", "node-2"])
placings = st.none() | st.tuples(st.sampled_from(["ssd", "hdd"]), st.booleans())


@given(st.lists(st.tuples(names, placings, st.sampled_from([*PODS, None]))))
def test_incremental_result_equals_check_of_each_node(happened):
    nodes = {}
    places = FeasibleNodes(nodes)
    for name, placing, asked in happened:
        if placing is None:
            nodes.pop(name, None)
        else:
            nodes[name] = node(name, placing[0], cordoned=placing[1])
        places.changed(name)
        if asked:
            places.for_pod(asked)
            caught_up(places)
    for one in PODS:
        places.for_pod(one)
    caught_up(places)
    for one in PODS:
        right = {name for name, found in nodes.items() if is_feasible(found, one)}
        assert places.for_pod(one) == right


def test_pods_with_equal_constraints_share_a_result():
    places = FeasibleNodes({"a": node("a"), "b": node("b", "hdd")})
    one, two = pod("one", {"disk": "ssd"}), pod("two", {"disk": "ssd"})
    places.for_pod(one)
    caught_up(places)
    assert places.for_pod(two) is places.for_pod(one)
    assert not places.behind
    assert places.for_pod(two) == {"a"}


def test_change_without_effect_keeps_the_version():
    nodes = {"a": node("a"), "b": node("b")}
    places = FeasibleNodes(nodes)
    places.for_pod(pod())
    caught_up(places)
    version = places.version
    nodes["a"] = node("a", "hdd")
    places.changed("a")
    caught_up(places)
    assert places.version == version
    nodes["a"] = node("a", cordoned=True)
    places.changed("a")
    assert places.behind
    caught_up(places)
    assert places.version > version
    assert places.for_pod(pod()) == {"b"}


def test_many_nodes_are_checked_in_steps():
    nodes = {f"node-{number}": node(f"node-{number}") for number in range(2000)}
    places = FeasibleNodes(nodes)
    takers = places.for_pod(pod())
    known = [len(takers) for _ in places.catching_up()]
    assert len(known) > 2
    assert known == sorted(known)
    assert known[-1] == 2000


def test_result_is_dropped_with_the_last_pod_that_needs_it():
    places = FeasibleNodes({"a": node("a")})
    one, two = pod("one"), pod("two")
    for each in (one, two):
        places.change_pod(None, each)
    places.for_pod(one)
    caught_up(places)
    places.change_pod(one, None)
    assert places.for_pod(two) == {"a"}
    places.change_pod(two, None)
    assert places.for_pod(two) == set(), "nothing is known until the next check"
    assert places.behind
