"""A status is shown as far as it has the expected types."""

import pytest

from evaluator.features.pages.explain.status import shown


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"compliance": 1, "message": ["x"], "conditions": "none"},
        {"conditions": [1, "x", None]},
    ],
)
def test_fields_of_other_types_are_left_out(status):
    assert shown(status) == {"compliance": "", "message": "", "conditions": []}


def test_conditions_have_texts_only():
    condition = {"type": "Valid", "status": True, "reason": "Valid", "extra": "x"}
    [found] = shown({"compliance": "Violated", "conditions": [condition]})["conditions"]
    assert found == {
        "type": "Valid",
        "status": "",
        "reason": "Valid",
        "message": "",
        "lastTransitionTime": "",
    }
