"""Selectors: which series match."""

import pytest

from agent.rules.promql import labels
from agent.rules.promql.regex import compiled
from agent.rules.promql.syntax.matchers import Matcher, Operator, Selector

ETH0 = labels.of_series("speed", (("device", "eth0"), ("node", "a")))


def matcher(name, sign, value):
    operator = Operator(sign)
    return Matcher(name, operator, value, compiled(value) if "~" in sign else None)


@pytest.mark.parametrize(
    ("sign", "value", "passes"),
    [
        ("=", "eth0", True),
        ("=", "eth", False),
        ("!=", "eth0", False),
        ("!=", "eth", True),
        ("=~", "eth.", True),
        ("=~", "eth", False),
        ("!~", "eth.", False),
        ("!~", "eth", True),
    ],
)
def test_matcher_is_anchored(sign, value, passes):
    assert Selector("speed", (matcher("device", sign, value),))(ETH0) is passes


@pytest.mark.parametrize(
    ("sign", "value", "passes"),
    [("=", "", True), ("!=", "", False), ("=~", "|x", True), ("=~", "x", False), ("!~", "x", True)],
)
def test_missing_label_is_empty(sign, value, passes):
    assert Selector("speed", (matcher("port", sign, value),))(ETH0) is passes


def test_name_and_all_matchers_must_match():
    one, other = matcher("node", "=", "a"), matcher("device", "=", "ib0")
    assert Selector("speed", (one,))(ETH0)
    assert not Selector("speed", (one, other))(ETH0)
    assert not Selector("carrier", (one,))(ETH0)
    assert Selector("", (matcher("__name__", "=~", "sp.*"),))(ETH0)
    assert not Selector("", (matcher("__name__", "!=", "speed"),))(ETH0)
