"""Resource amounts are rounded as by kube-scheduler."""

import math
from typing import Any

import pytest

from evaluator.core.model.resources import (
    RESOURCES,
    Resource,
    allocatable,
    allocatable_extended,
    amount,
    extended_resources,
    others_minus,
    others_plus,
)


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        (Resource.CPU, "0.57", 570),
        (Resource.CPU, "1u", 1),
        (Resource.CPU, "0", 0),
        (Resource.MEMORY, "1.5", 2),
        (Resource.MEMORY, "1Ki", 1024),
        (Resource.MEMORY, "9007199254740993", 2**53 + 1),
        (Resource.GPU, "8", 8),
        (Resource.MEMORY, "1e300", 2**63 - 1),
    ],
)
def test_amount_is_rounded_up_to_an_integer(resource: Resource, text: str, expected: int) -> None:
    assert amount(resource, text) == expected


@pytest.mark.parametrize("text", ["-1", "", "x", "1e999"])
def test_invalid_amount_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"quantity"):
        amount(Resource.CPU, text)


def told(**amounts: Any) -> dict[Resource, float]:
    return dict(zip(RESOURCES, allocatable(amounts), strict=True))


def test_missing_allocatable_is_zero_except_cpu_and_memory() -> None:
    found = told(pods="110")
    assert math.isnan(found[Resource.CPU])
    assert math.isnan(found[Resource.MEMORY])
    assert found[Resource.PODS] == 110
    assert found[Resource.GPU] == found[Resource.EPHEMERAL_STORAGE] == 0


def test_unreadable_allocatable_is_unknown() -> None:
    assert math.isnan(told(pods="many")[Resource.PODS])


def test_nodes_with_equal_allocatable_share_it() -> None:
    assert allocatable({"cpu": "x", "memory": "1Gi"}) is allocatable(
        {"cpu": "", "memory": "1024Mi"}
    )


def test_extended_resources_of_a_node_are_those_of_kube_scheduler() -> None:
    told = {"cpu": "4", "pods": "9", "nvidia.com/gpu": "8", "hugepages-1Gi": "0", "storage": "1"}
    more = {"hugepages-2Mi": "4Mi", "amd.com/gpu": "2", "a.com/unreadable": "x"}
    assert allocatable_extended(told | more) == (("amd.com/gpu", 2), ("hugepages-2Mi", 4 * 2**20))
    assert allocatable_extended(told) == ()


def test_extended_resources_add_and_subtract_and_drop_zeros() -> None:
    one, two = (
        extended_resources([("b", 2), ("a", 1)]),
        extended_resources([("b", 1), ("c", 3), ("d", 0)]),
    )
    both = (("a", 1), ("b", 3), ("c", 3))
    assert others_plus(one, two) == both
    assert others_plus(one, ()) == others_plus((), one) == one
    assert others_minus(both, two) is one
    assert others_minus(one, one) == ()
