"""Patterns of metric names beside fnmatch, and in linear time."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.patterns import Patterns

few = st.text(alphabet="ab*", max_size=8)


@given(few, st.text(alphabet="ab", max_size=10))
def test_star_stands_for_any_characters(pattern, name):
    expected = re.fullmatch(fnmatch.translate(pattern), name) is not None
    assert Patterns([pattern]).matches(name) is expected


def test_name_matches_any_of_several_patterns():
    wanted = Patterns(["node_load1", "node_pressure_*"])
    assert wanted.matches("node_load1")
    assert wanted.matches("node_pressure_cpu_waiting_seconds_total")
    assert not wanted.matches("node_load15")
    assert not Patterns().matches("")


@pytest.mark.timeout(60)
def test_many_stars_do_not_backtrack():
    assert not Patterns(["a*" * 99 + "b"]).matches("a" * 200)
