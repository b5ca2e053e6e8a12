"""Labels that a selector fixes exactly, for absent()."""

import pytest

from agent.rules.promql import labels
from agent.rules.promql.expression import parse
from agent.rules.promql.syntax.parser import asserted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", {}),
        ('a{x="1", y="2"}', {"x": "1", "y": "2"}),
        ('a{x="1", y!="2", z=~"3", w!~"4"}', {"x": "1"}),
        ('a{x="1", x="1"}', {}),
        ('a{x="1", x="2", x="3"}', {}),
        ('a{x="1", x!="2"}', {}),
        ('a{x!="2", x="1"}', {"x": "1"}),
        ('a{x=""}', {}),
        ('{__name__="a", x="1"}', {"x": "1"}),
        ('{__name__="a", __name__="b", x="1"}', {"x": "1"}),
    ],
)
def test_exact_matchers_are_extracted(text, said):
    (need,) = parse(text).needs
    assert asserted(need.selector) == labels.make(said.items())
