"""Label selectors compare numbers as Go's strconv.ParseInt reads them."""

import pytest

from sandbox.apiserver.storage.selectors import parse_labels


@pytest.mark.parametrize(
    ("selector", "value", "matches"),
    [
        ("gen>6", "7", True),
        ("gen>7", "7", False),
        ("gen<8", "007", True),
        ("gen>1", "1_000", False),
        ("gen>1", "9223372036854775808", False),
        ("gen>1", None, False),
    ],
)
def test_numbers_in_selectors_are_compared(selector, value, matches):
    labels = {} if value is None else {"gen": value}
    assert all(predicate(labels) for predicate in parse_labels(selector)) is matches
