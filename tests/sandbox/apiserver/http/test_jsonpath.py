"""The JSONPath of printer columns."""

import pytest

from sandbox.apiserver.http import jsonpath

OBJECT = {
    "spec": {"name": "x", "list": [{"n": 1}, {"n": 2}], "on": True},
    "metadata": {"labels": {"a.b/c": "d"}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.name", ["x"]),
        (".spec.list[0].n", [1]),
        (".spec.list[-1].n", [2]),
        (".spec.list[9].n", []),
        (".spec.list[*].n", [1, 2]),
        (".spec.nosuch.name", []),
        (".metadata.labels['a.b/c']", ["d"]),
        (".metadata.labels.a\\.b/c", ["d"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        ('.status.conditions[?(@.type=="None")].status', []),
    ],
)
def test_paths_are_evaluated(path, expected):
    assert jsonpath.find(OBJECT, path) == expected


@pytest.mark.parametrize("path", ["spec", ".a[", ".a[?(@.b)]", ".a[b]"])
def test_invalid_path_is_rejected(path):
    with pytest.raises(ValueError, match="unsupported"):
        jsonpath.find(OBJECT, path)
