"""The index of pods by policy holds the existing pods, and its version changes with them."""

from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.cache.pods_by_policy import PodsByPolicy, policy_of
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod, PodMeta, PodSpec

NAMES = ("one", "two", "three")


def pod(name, policy, node):
    labels = {"telemetry-policy": policy} if policy else None
    return Pod(PodMeta(name=name, namespace="ns", labels=labels), PodSpec(node_name=node))


def test_pods_are_indexed_by_policy_of_their_own_namespace():
    assert policy_of(pod("one", "demo", "")) == PolicyKey("ns", "demo")
    assert policy_of(pod("one", None, "")) is None


states = st.none() | st.tuples(st.sampled_from(["demo", "other", None]), st.sampled_from(["", "n"]))


@given(st.lists(st.tuples(st.sampled_from(NAMES), states)))
def test_index_holds_exactly_the_existing_pods(changes):
    linked, there = PodsByPolicy(lambda pod: pod.running), {}
    keys = [PolicyKey("ns", name) for name in ("demo", "other")]
    seen = {key: {} for key in keys}
    for name, state in changes:
        after = pod(name, *state) if state else None
        linked.change(there.pop(name, None), after)
        if after:
            there[name] = after
        for key in keys:
            right = [one for one in there.values() if one.running and policy_of(one) == key]
            found = sorted(linked.of(key), key=str)
            assert found == sorted(right, key=str)
            assert (linked.version(key) == 0) is not bool(right)
            before = seen[key].setdefault(linked.version(key), found)
            assert [id(one) for one in before] == [id(one) for one in found]
