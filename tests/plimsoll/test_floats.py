"""One spelling of infinity and NaN: that of Prometheus."""

import math

import pytest

from plimsoll.floats import not_finite
from plimsoll.quantity import json_number, number, readable


@pytest.mark.parametrize(
    ("value", "text"), [(math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN")]
)
def test_values_that_are_not_finite_are_written_as_prometheus_does(value, text):
    assert not_finite(value) == number(value) == readable("m_bytes", value) == text
    assert json_number(value) == (None if text == "NaN" else text)
