"""changes() and resets()."""

import math

import pytest

from agent.rules.promql.functions import RANGES

NAN = math.nan


@pytest.mark.parametrize(
    ("values", "changes", "resets"),
    [
        ([1], 0, 0),
        ([1, 1, 1], 0, 0),
        ([1, 2, 3], 2, 0),
        ([1, 2, 1, 1], 2, 1),
        ([3, 2, 1], 2, 2),
        ([NAN, NAN], 0, 0),
        ([1, NAN, NAN, 1], 2, 0),
        ([2, NAN, 1], 2, 0),
        ([math.inf, math.inf, -math.inf], 1, 1),
        ([0.0, -0.0], 0, 0),
    ],
)
def test_changes_and_resets_are_counted(window, values, changes, resets):
    assert RANGES["changes"].compute(window(values), 0, 60_000) == changes
    assert RANGES["resets"].compute(window(values), 0, 60_000) == resets
