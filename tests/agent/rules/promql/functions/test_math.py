"""Functions of one value, as computed by Go."""

import math

import pytest

from agent.rules.promql.functions import POINTWISE

NAN, INF = math.nan, math.inf


def same(one, other):
    return (one != one and other != other) or (
        one == other and math.copysign(1, one) == math.copysign(1, other)
    )


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("abs", (-2.5,), 2.5),
        ("ceil", (1.2,), 2.0),
        ("ceil", (-0.5,), -0.0),
        ("ceil", (-INF,), -INF),
        ("floor", (-1.2,), -2.0),
        ("floor", (-0.0,), -0.0),
        ("floor", (1e300,), 1e300),
        ("floor", (INF,), INF),
        ("floor", (NAN,), NAN),
        ("round", (2.5,), 3.0),
        ("round", (-2.5,), -2.0),
        ("round", (0.29, 0.1), 0.3),
        ("round", (-0.15, 0.1), -0.1),
        ("round", (127.0, 10.0), 130.0),
        ("round", (125.0, 10.0), 130.0),
        ("round", (7.0, 0.0), NAN),
        ("round", (7.0, INF), NAN),
        ("round", (INF,), INF),
        ("clamp", (5.0, 0.0, 3.0), 3.0),
        ("clamp", (-5.0, 0.0, 3.0), 0.0),
        ("clamp", (2.0, 0.0, 3.0), 2.0),
        ("clamp", (NAN, 0.0, 3.0), NAN),
        ("clamp", (2.0, NAN, 3.0), NAN),
        ("clamp", (-INF, -INF, NAN), -INF),
        ("clamp_min", (1.0, 2.0), 2.0),
        ("clamp_min", (NAN, 2.0), NAN),
        ("clamp_min", (NAN, INF), INF),
        ("clamp_min", (0.0, -0.0), 0.0),
        ("clamp_max", (3.0, 2.0), 2.0),
        ("clamp_max", (NAN, -INF), -INF),
        ("clamp_max", (0.0, -0.0), -0.0),
        ("exp", (0.0,), 1.0),
        ("exp", (1000.0,), INF),
        ("exp", (-1000.0,), 0.0),
        ("ln", (1.0,), 0.0),
        ("ln", (0.0,), -INF),
        ("ln", (-1.0,), NAN),
        ("ln", (INF,), INF),
        ("log2", (8.0,), 3.0),
        ("log2", (0.0,), -INF),
        ("log2", (-1.0,), NAN),
        ("log2", (INF,), INF),
        ("log2", (NAN,), NAN),
        ("log2", (1.0000000001,), 1.442695962694529e-10),
        ("log10", (1000.0,), 3.0),
        ("log10", (0.001,), -3.0),
        ("log10", (0.0,), -INF),
        ("log10", (-1.0,), NAN),
        ("log10", (1.0000000001,), 4.342945178152237e-11),
        ("sqrt", (9.0,), 3.0),
        ("sqrt", (-1.0,), NAN),
        ("sqrt", (NAN,), NAN),
        ("sqrt", (-0.0,), -0.0),
        ("sgn", (-3.0,), -1.0),
        ("sgn", (0.5,), 1.0),
        ("sgn", (-0.0,), -0.0),
        ("sgn", (NAN,), NAN),
    ],
)  # fmt: skip
def test_values_are_as_in_prometheus(name, arguments, found):
    assert same(POINTWISE[name](*arguments), found)


def test_clamp_with_reversed_bounds_is_empty():
    assert POINTWISE["clamp"](5.0, 3.0, 0.0) is None
