"""Whether pods fit together agrees with pod-by-pod placement as by kube-scheduler."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.resources import RESOURCES
from evaluator.features.gangs.core.membership import PlacementConstraints, PodShape, shapes
from evaluator.features.gangs.core.packing import Capacity, Packing

CPU, PODS = RESOURCES.index("cpu"), RESOURCES.index("pods")


def asking(cpu=0, *, where=b"", others=(), pods=1):
    vector = [0] * len(RESOURCES)
    vector[CPU], vector[PODS] = cpu, pods
    return PodShape(tuple(vector), tuple(others), PlacementConstraints(where), None)


def a_space(cores, *, pods=110, others=None, only=None):
    """Nodes with this much milli-CPU each."""
    names = NodeIndex(f"n{number}" for number in range(len(cores)))
    resources = (*map(str, RESOURCES), *(others or {}))
    whole = np.zeros((len(resources), len(names)))
    whole[CPU], whole[PODS] = cores, pods
    for row, amounts in enumerate((others or {}).values(), start=len(RESOURCES)):
        whole[row] = amounts
    masks = {
        asked: np.array([name in told for name in names]) for asked, told in (only or {}).items()
    }
    return Capacity(
        names,
        resources,
        whole.copy(),
        whole,
        lambda where, _: masks.get(where.constraints, names.all),
    )


def test_equal_pods_fill_the_capacity():
    packing = Packing(a_space([3000, 1000, 500]))
    assert packing.shortage({asking(1000): 4}, need=4) is None
    lacking = packing.shortage({asking(1000): 5}, need=5)
    assert (lacking.fit, lacking.requested, lacking.nodes, lacking.short) == (4, 5, 3, "cpu")


def test_taken_capacity_is_not_free():
    packing = Packing(a_space([3000, 1000]))
    packing.place({asking(1000): 3})
    assert packing.shortage({asking(1000): 2}, need=2).fit == 1
    packing.place({asking(1000): 9})  # as many as fit
    assert packing.shortage({asking(1): 1}, need=1).fit == 0


def test_trial_takes_nothing():
    packing = Packing(a_space([2000, 2000]))
    mixed = {asking(1500): 2, asking(500): 2}
    assert packing.shortage(mixed, need=4) is None
    assert packing.shortage(mixed, need=4) is None


def test_pods_per_node_are_limited_too():
    lacking = Packing(a_space([8000, 8000], pods=1)).shortage({asking(100): 3}, need=3)
    assert (lacking.fit, lacking.short) == (2, "pods")


def test_resource_of_no_node_is_the_shortage():
    lacking = Packing(a_space([8000])).shortage(
        {asking(100, others=(("acme.com/fpga", 1),)): 1}, need=1
    )
    assert (lacking.fit, lacking.short) == (0, "acme.com/fpga")


def test_extended_resources_count():
    packing = Packing(a_space([8000, 8000], others={"acme.com/fpga": [2, 1]}))
    shape = asking(100, others=(("acme.com/fpga", 1),))
    assert packing.shortage({shape: 3}, need=3) is None
    packing.place({shape: 1})
    assert packing.shortage({shape: 3}, need=3).short == "acme.com/fpga"


def test_ineligible_nodes_have_no_capacity():
    packing = Packing(a_space([8000, 8000], only={b"picky": {"n1"}, b"nowhere": set()}))
    assert packing.shortage({asking(4000, where=b"picky"): 3}, need=3).fit == 2
    nowhere = packing.shortage({asking(1, where=b"nowhere"): 1}, need=1)
    assert (nowhere.nodes, nowhere.short) == (0, "nodes")


def test_constrained_pods_are_placed_first():
    packing = Packing(a_space([1000, 1000], only={b"picky": {"n0"}}))
    assert packing.shortage({asking(1000): 1, asking(1000, where=b"picky"): 1}, need=2) is None


def test_large_pods_are_placed_before_small_ones():
    assert (
        Packing(a_space([4000, 1000])).shortage({asking(1000): 1, asking(4000): 1}, need=2) is None
    )


@pytest.mark.parametrize("unknown", [math.nan, -500.0])
def test_unknown_or_overcommitted_node_has_no_capacity(unknown):
    lacking = Packing(a_space([unknown, 1000])).shortage({asking(500): 3}, need=3)
    assert lacking.fit == 2


def test_nothing_fits_without_nodes():
    assert Packing(a_space([])).shortage({asking(1): 1}, need=1).nodes == 0


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
)
def test_pods_that_fit_can_be_placed_one_by_one(cores, sizes):
    """For equal sizes the converse holds too."""
    pods = [asking(size * 1000) for size in sizes]
    demand = {shape: pods.count(shape) for shape in pods}
    fits = (
        Packing(a_space([core * 1000 for core in cores])).shortage(demand, need=len(pods)) is None
    )
    assert not fits or placeable(sorted(sizes, reverse=True), cores)
    if len(set(sizes)) == 1:
        assert fits == (sum(core // sizes[0] for core in cores) >= len(sizes))


A_SHAPE = st.builds(
    lambda cpu, fpgas, where: asking(
        cpu, where=where, others=[("acme.com/fpga", fpgas)] if fpgas else []
    ),
    st.integers(0, 4),
    st.integers(0, 2),
    st.sampled_from([b"", b"left", b"right"]),
)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=5),
    st.dictionaries(A_SHAPE, st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 8),
    st.booleans(),
)
def test_shortcuts_agree_with_full_packing(nodes, demand, need, empty):
    cores, fpgas = zip(*nodes, strict=True)
    only = {b"left": {"n0", "n1"}, b"right": {"n1", "n2"}}
    capacity = a_space(cores, pods=4, others={"acme.com/fpga": fpgas}, only=only)
    need = min(need, sum(demand.values()))
    tried = Packing(capacity, empty=empty)
    tried.place(demand)
    fit = int((capacity.free[PODS] - tried._free[PODS]).sum())
    lacking = Packing(capacity, empty=empty).shortage(demand, need=need)
    assert (lacking is None) == (fit >= need)
    assert lacking is None or fit <= lacking.fit < need


def placeable(sizes, cores):
    """Whether any placement exists."""
    if not sizes:
        return True
    return any(
        room >= sizes[0] and placeable(sizes[1:], [*cores[:n], room - sizes[0], *cores[n + 1 :]])
        for n, room in enumerate(cores)
    )


def test_equal_shapes_are_counted(a_pod):
    pods = [a_pod("a"), a_pod("b"), a_pod("c", cpu=2)]
    assert sorted(shapes(pods).values()) == [1, 2]
