"""Label selectors as Kubernetes reads them; numbers as Go's strconv.ParseInt reads them."""

import pytest

from plimsoll.labels.selector import parse_selector


def matches(selector, labels):
    return all(requirement.matches(labels) for requirement in parse_selector(selector))


@pytest.mark.parametrize(
    ("selector", "value", "expected"),
    [
        ("gen>6", "7", True),
        ("gen>7", "7", False),
        ("gen<8", "007", True),
        ("gen>1", "1_000", False),
        ("gen>1", "9223372036854775808", False),
        ("gen>1", None, False),
    ],
)
def test_numbers_in_selectors_are_compared(selector, value, expected):
    assert matches(selector, {} if value is None else {"gen": value}) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier", True),
        ("app!=web", False),
        ("zone!=a", True),
        ("app in (api, web), !zone", True),
        ("app notin (web)", False),
        ("tier=", True),
        ("zone=", False),
        ("!app", False),
    ],
)
def test_every_requirement_must_match(selector, expected):
    assert matches(selector, {"app": "web", "tier": ""}) is expected


@pytest.mark.parametrize(
    "selector", ["app=web,", "=web", "app=a b", "app in (a", "a/b/c=d", "in", ","]
)
def test_malformed_selectors_are_rejected(selector):
    with pytest.raises(ValueError, match="unable to parse requirement"):
        parse_selector(selector)
