"""Field sets: FieldsV1 round-trips, and operations are those of sets."""

from hypothesis import given
from hypothesis import strategies as st

from sandbox.apiserver.kinds.topology import BUILT_IN
from sandbox.apiserver.writes import fieldsets

names = st.sampled_from(["a", "b", "labels", "group", "containers", "name", "finalizers"])
leaves = st.sampled_from([1, "x", True])
items = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("xyz"), "image": leaves}),
    max_size=3,
    unique_by=lambda item: item["name"],
)
objects = st.recursive(
    st.dictionaries(
        names.filter(lambda n: n not in {"containers", "finalizers"}), leaves, max_size=3
    )
    | st.fixed_dictionaries({"containers": items})
    | st.fixed_dictionaries({"finalizers": st.lists(st.sampled_from("pqr"), unique=True)}),
    lambda inner: st.dictionaries(st.sampled_from(["group", "a", "labels"]), inner, max_size=3),
    max_leaves=8,
)


@given(objects)
def test_fields_v1_round_trips(value):
    whole = fieldsets.all_of(value, BUILT_IN)
    assert fieldsets.decode(whole.encode()) == whole


@given(objects, objects)
def test_operations_are_those_of_sets(one, two):
    left, right = fieldsets.all_of(one, BUILT_IN), fieldsets.all_of(two, BUILT_IN)
    a, b = set(left.paths()), set(right.paths())
    assert set((left | right).paths()) == a | b
    assert set((left & right).paths()) == a & b
    assert set((left - right).paths()) == a - b


@given(objects)
def test_difference_with_itself_is_empty(value):
    assert fieldsets.compare(value, value, BUILT_IN) == (fieldsets.EMPTY, fieldsets.EMPTY)


@given(objects, objects)
def test_merge_contains_all_applied_fields_and_is_idempotent(live, config):
    merged = fieldsets.merge(live, config, BUILT_IN)
    again = fieldsets.merge(merged, config, BUILT_IN)
    assert again == merged
    stated = set(fieldsets.claimed(config, BUILT_IN).paths())
    assert stated <= set(fieldsets.all_of(merged, BUILT_IN).paths())


@given(objects)
def test_removing_all_fields_leaves_nothing(value):
    assert not fieldsets.without(value, fieldsets.all_of(value, BUILT_IN), BUILT_IN)


def test_paths_are_formatted_as_by_the_api_server():
    value = {
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
        "metadata": {"labels": {"a.b/c": "d"}, "finalizers": ["x"]},
    }
    assert set(fieldsets.claimed(value, BUILT_IN).paths()) == {
        '.metadata.finalizers[="x"]',
        ".metadata.labels.a.b/c",
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].name',
        '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]',
        '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].containerPort',
    }
