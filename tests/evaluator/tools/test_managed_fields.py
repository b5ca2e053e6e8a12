"""Which labels of Telemetry Aware Scheduling are adopted, and the resulting `managedFields`."""

import json

import pytest

from evaluator.tools import adopt_labels

PREFIX = "telemetry.aware.scheduling."


def node(labels, *managers):
    """A node with labels and managed fields: (manager, operation, keys) each."""
    entries = [
        {
            "manager": name,
            "operation": operation,
            "apiVersion": "v1",
            "time": "T0",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {} for key in keys}}},
        }
        for name, operation, keys in managers
    ]
    return {"metadata": {"name": "n", "labels": labels, "managedFields": entries}}


@pytest.mark.parametrize(
    ("key", "value", "ours"),
    [
        ("demo", "violating", True),
        ("demo", "mine", False),
        ("other", "violating", False),
        (f"{PREFIX}demo/card0", "true", True),
        (f"{PREFIX}demo/card0", "anything", True),
        (f"{PREFIX}other/card0", "true", False),
        (f"{PREFIX}demo", "true", False),
        ("demo/card0", "true", False),
        (f"x.{PREFIX}demo/card0", "true", False),
    ],
)
def test_only_labels_of_policies_are_candidates(key, value, ours):
    found = node({key: value}, ("tas", "Update", [key]))
    assert adopt_labels.candidates(found, {"demo"}).keys() == ({key} if ours else set())


@pytest.mark.parametrize(
    ("managers", "ours"),
    [
        ([("tas", "Update", ["demo"])], True),
        ([("tas", "Update", ["demo"]), ("plimsoll", "Apply", ["demo"])], True),
        ([("tas", "Update", ["demo"]), ("argocd", "Apply", ["demo"])], False),
        ([("argocd", "Apply", ["demo"])], False),
        ([("plimsoll", "Apply", ["demo"])], False),
        ([], True),
    ],
    ids=[
        "owned by TAS",
        "shared with us",
        "shared with an applier",
        "owned by an applier",
        "ours",
        "no managed fields",
    ],
)
def test_labels_applied_by_another_manager_are_no_candidates(managers, ours):
    found = node({"demo": "violating"}, *managers)
    assert adopt_labels.candidates(found, {"demo"}).keys() == ({"demo"} if ours else set())


def test_other_owners_keep_their_other_fields():
    found = node({}, ("tas", "Update", ["demo", "mine"]), ("kubelet", "Update", ["zone"]))
    found["metadata"]["managedFields"][1]["fieldsV1"]["f:status"] = {"f:x": {}}
    before = json.dumps(found)
    tas, kubelet, ours = adopt_labels.adopted(found, {"demo"}, at="T1")
    assert json.dumps(found) == before, "the input is not modified"
    assert tas["fieldsV1"]["f:metadata"]["f:labels"] == {"f:mine": {}}
    assert kubelet == found["metadata"]["managedFields"][1]
    assert ours == {
        "manager": "plimsoll",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "T1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:demo": {}}}},
    }


def test_entries_without_fields_are_dropped():
    found = node({}, ("tas", "Update", ["demo"]), ("plimsoll", "Apply", ["own"]))
    (ours,) = adopt_labels.adopted(found, {"demo"}, at="T1")
    assert ours["fieldsV1"]["f:metadata"]["f:labels"] == {"f:own": {}, "f:demo": {}}
