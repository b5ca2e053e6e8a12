"""What the watch of pods reports, as pods placed and gone."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.cache.cluster import ClusterCache, decode_pod
from evaluator.core.intake import Intake
from evaluator.core.model.names import PolicyKey
from evaluator.core.signals import PolicyPodChanged, on, unheard
from plimsoll import rfc3339
from tests.evaluator.core.placement.worlds import vector

NOW, UNIX = 1000.0, 1_700_000_000.0


def pod(uid="u", node="", *, phase="Pending", leaving=False, cpu="200m", since=0.0, name="web"):
    """A pod as the API server sends it; `since`: seconds since it was bound."""
    conditions = [
        {
            "type": "PodScheduled",
            "status": "True" if node else "False",
            "lastTransitionTime": rfc3339.seconds(UNIX - since),
        }
    ]
    meta = {"name": name, "namespace": "ns", "uid": uid, "labels": {"telemetry-policy": "demo"}}
    if leaving:
        meta["deletionTimestamp"] = rfc3339.seconds(UNIX)
    spec = {
        "nodeName": node,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
    }
    status = {"phase": phase, "conditions": conditions}
    return decode_pod(json.dumps({"metadata": meta, "spec": spec, "status": status}).encode())


class Placements:
    """Records what it is told."""

    def __init__(self):
        self.where, self.ages, self.events = {}, {}, []

    def bound(self, placed, node, at, now):
        assert placed.uid not in self.where, "counted twice"
        self.where[placed.uid], self.ages[placed.uid] = node, now - at
        self.events.append(placed)

    def gone(self, placed, node, now):
        assert self.where.pop(placed.uid) == node


@pytest.fixture
def watched():
    placements, cluster = Placements(), ClusterCache()
    unused = SimpleNamespace()
    intake = Intake(
        unused,
        unused,
        conditions=unused,
        failing_rules=unused,
        problems=unused,
        causes=unused,
        registrations=unused,
        placements=placements,
        publish=unheard,
        clock=lambda: NOW,
        wall=lambda: UNIX,
    )
    cluster.signals.connect([on(PolicyPodChanged, intake.pod_changed)])
    return SimpleNamespace(pods=cluster.pods, placements=placements)


def test_a_pod_that_is_seen_being_bound_counts_from_then_on(watched):
    """Whatever the clock of the scheduler says."""
    watched.pods.put(pod())
    assert watched.placements.where == {}
    watched.pods.put(pod(node="a", since=500.0))
    assert (watched.placements.where, watched.placements.ages) == ({"u": "a"}, {"u": 0.0})
    (placed,) = watched.placements.events
    assert (placed.policy, placed.requests) == (PolicyKey("ns", "demo"), vector(cpu=200))


def test_a_pod_that_is_found_bound_counts_since_it_was(watched):
    watched.pods.put(pod(node="a", since=70.0))
    assert watched.placements.ages == {"u": 70.0}
    watched.pods.put(pod("v", node="a", since=-70.0, name="b"))
    assert watched.placements.ages["v"] == 0.0


@pytest.mark.parametrize(
    "after",
    [pod(node="a", leaving=True), pod(node="a", phase="Failed"), pod(node="a", phase="Succeeded")],
)
def test_a_pod_that_ends_is_gone(watched, after):
    watched.pods.put(pod(node="a"))
    watched.pods.put(after)
    assert watched.placements.where == {}


def test_another_pod_of_the_name_takes_its_place(watched):
    watched.pods.put(pod(node="a"))
    watched.pods.put(pod("v", node="b"))
    assert watched.placements.where == {"v": "b"}


def test_a_resized_pod_stays(watched):
    watched.pods.put(pod(node="a"))
    watched.pods.put(pod(node="a", cpu="4", phase="Running"))
    assert len(watched.placements.events) == 1


STATES = st.sampled_from(["", "a", "b", "a leaving", "b Failed", "absent"])


@given(st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from("uv"), STATES), max_size=20))
def test_pods_are_where_their_last_states_say(events):
    """Each is placed and gone once, for any order of events, as after a lost watch."""
    placements, cluster = Placements(), ClusterCache()
    unused = SimpleNamespace()
    parts = {
        "conditions": unused,
        "failing_rules": unused,
        "problems": unused,
        "causes": unused,
        "registrations": unused,
    }
    intake = Intake(unused, unused, **parts, placements=placements, publish=unheard)
    cluster.signals.connect([on(PolicyPodChanged, intake.pod_changed)])
    last = {}
    for name, generation, state in events:
        uid, (node, _, rest) = f"{name}{generation}", state.partition(" ")
        if state == "absent":
            cluster.pods.drop(pod(uid, name=name))
            last.pop(name, None)
            continue
        leaving, phase = rest == "leaving", rest if rest == "Failed" else "Pending"
        cluster.pods.put(pod(uid, node, name=name, leaving=leaving, phase=phase))
        last[name] = (uid, node) if node and not rest else None
    assert placements.where == dict(filter(None, last.values()))
