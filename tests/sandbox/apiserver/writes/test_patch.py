"""JSON, merge and strategic merge patches on plain values."""

import copy

import pytest

from sandbox.apiserver.errors import ApiError
from sandbox.apiserver.writes.patch import json_patch, merge_patch, strategic_merge_patch


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": None}, {}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"a": 1}, [1], [1]),
    ],
)
def test_merge_patch_is_applied(target, patch, expected):
    before = copy.deepcopy(target)
    assert merge_patch(target, patch) == expected
    assert target == before


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
        ([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "replace", "path": "/a", "value": 0}], {"a": 0}),
        ([{"op": "replace", "path": "", "value": 5}], 5),
        ([{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1, 2], "b": [1, 2]}),
        ([{"op": "move", "from": "/a/0", "path": "/b"}], {"a": [2], "b": 1}),
        ([{"op": "test", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ([{"op": "add", "path": "/x~1y~0z", "value": 1}], {"a": [1, 2], "x/y~z": 1}),
    ],
)
def test_json_patch_is_applied(operations, expected):
    target = {"a": [1, 2]}
    assert json_patch(target, operations) == expected
    assert target == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({"op": "add"}, 400),
        (["add"], 400),
        ([{"op": "jump", "path": "/a"}], 422),
        ([{"op": "remove", "path": "/nosuch"}], 422),
        ([{"op": "replace", "path": "/nosuch", "value": 1}], 422),
        ([{"op": "add", "path": "/a/7", "value": 1}], 422),
        ([{"op": "add", "path": "/b/c", "value": 1}], 422),
        ([{"op": "add", "path": "a", "value": 1}], 422),
        ([{"op": "add", "path": "/a"}], 422),
        ([{"op": "test", "path": "/a", "value": 1}], 422),
        ([{"op": "remove", "path": "/a/-1"}], 422),
        ([{"op": "add", "path": "/a/00", "value": 1}], 422),
        ([{"op": "add", "path": "/~2", "value": 1}], 422),
        ([{"op": "remove", "path": ""}], 422),
        ([{"op": "copy", "from": 5, "path": "/b"}], 422),
        ([{"op": "copy", "from": "/a/-", "path": "/b"}], 422),
        ([{"path": "/a", "value": 1}], 422),
    ],
)
def test_inapplicable_json_patches_are_rejected(operations, code):
    with pytest.raises(ApiError) as error:
        json_patch({"a": [1, 2]}, operations)
    assert error.value.code == code


def conditions(**by_type):
    return [{"type": kind, "status": status} for kind, status in by_type.items()]


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        pytest.param(
            {"conditions": conditions(A="1", B="2")},
            {"conditions": conditions(B="3", C="4")},
            {"conditions": conditions(A="1", B="3", C="4")},
            id="keyed list merges",
        ),
        pytest.param(
            {"conditions": conditions(A="1", B="2")},
            {"conditions": [{"type": "A", "$patch": "delete"}]},
            {"conditions": conditions(B="2")},
            id="item deleted",
        ),
        pytest.param(
            {"conditions": conditions(A="1")},
            {"conditions": [*conditions(B="2"), {"$patch": "replace"}]},
            {"conditions": conditions(B="2")},
            id="list replaced",
        ),
        pytest.param(
            {"taints": [{"key": "a"}, {"key": "b"}]},
            {"taints": [{"key": "c"}]},
            {"taints": [{"key": "c"}]},
            id="atomic list",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"finalizers": ["b", "c"]},
            {"finalizers": ["a", "b", "c"]},
            id="set merges",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
            id="set loses",
        ),
        pytest.param(
            {"labels": {"a": "1", "b": "2"}},
            {"labels": {"$patch": "replace", "c": "3"}},
            {"labels": {"c": "3"}},
            id="map replaced",
        ),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}},
            {"strategy": {"type": "Recreate"}},
            id="retained keys",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
            {"containers": [{"name": "b"}, {"name": "a"}]},
            id="order",
        ),
        pytest.param(
            {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "x"}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "y"}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "y"}]}]},
            id="ports of a container",
        ),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}, id="map emptied"),
    ],
)
def test_strategic_patch_is_applied(target, patch, expected):
    before = copy.deepcopy(target)
    assert strategic_merge_patch(target, patch) == expected
    assert target == before


@pytest.mark.parametrize(
    "patch", [[], {"conditions": [{"status": "1"}]}, {"a": {"$patch": "explode"}}]
)
def test_invalid_strategic_patches_are_rejected(patch):
    with pytest.raises(ApiError) as error:
        strategic_merge_patch({"a": {}}, patch)
    assert error.value.code == 400
