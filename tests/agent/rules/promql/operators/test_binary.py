"""Binary operators; expected results are from Prometheus 2.42."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rules.promql import labels
from agent.rules.promql.operators.arithmetic import ARITHMETIC, COMPARISONS
from agent.rules.promql.operators.binary import SUPPORTED, scalars, vector_with_scalar, vectors
from agent.rules.promql.operators.vector_matching import Matching
from agent.rules.promql.values import EvaluationError

NAN, INF = math.nan, math.inf


def of(name, /, **pairs):
    return labels.make([*pairs.items(), ("__name__", name)])


def unnamed(**pairs):
    return labels.make(pairs.items())


def exactly(value):
    """A number that compares by the sign of zero and with NaN equal to NaN."""
    return repr(value)


@pytest.mark.parametrize(
    ("left", "op", "right", "result"),
    [
        (2.0, "+", 0.5, 2.5),
        (INF, "-", INF, NAN),
        (1e308, "*", -10.0, -INF),
        (7.0, "/", 2.0, 3.5),
        (1.0, "/", 0.0, INF),
        (1.0, "/", -0.0, -INF),
        (-1.0, "/", 0.0, -INF),
        (0.0, "/", 0.0, NAN),
        (INF, "/", 0.0, INF),
        (NAN, "/", 0.0, NAN),
        (7.0, "%", 3.0, 1.0),
        (-7.0, "%", 3.0, -1.0),
        (7.0, "%", -3.0, 1.0),
        (-6.0, "%", 3.0, -0.0),
        (7.5, "%", 2.0, 1.5),
        (1.0, "%", 0.0, NAN),
        (INF, "%", 2.0, NAN),
        (2.0, "%", INF, 2.0),
        (2.0, "%", NAN, NAN),
        (2.0, "^", 10.0, 1024.0),
        (2.0, "^", -1.0, 0.5),
        (4.0, "^", 0.5, 2.0),
        (-8.0, "^", 1 / 3, NAN),
        (-2.0, "^", 3.0, -8.0),
        (0.0, "^", 0.0, 1.0),
        (NAN, "^", 0.0, 1.0),
        (1.0, "^", NAN, 1.0),
        (-1.0, "^", INF, 1.0),
        (0.0, "^", -1.0, INF),
        (-0.0, "^", -1.0, -INF),
        (-0.0, "^", -2.0, INF),
        (0.0, "^", -INF, INF),
        (10.0, "^", 400.0, INF),
        (-10.0, "^", 401.0, -INF),
        (-10.0, "^", 400.0, INF),
        (10.0, "^", -400.0, 0.0),
        (0.5, "^", INF, 0.0),
        (-INF, "^", 3.0, -INF),
        (0.0, "atan2", -1.0, math.pi),
        (-1.0, "atan2", 0.0, -math.pi / 2),
        (NAN, "atan2", 1.0, NAN),
        (1.0, "==", 1.0, 1.0),
        (0.0, "==", -0.0, 1.0),
        (NAN, "==", NAN, 0.0),
        (NAN, "!=", NAN, 1.0),
        (1.0, "!=", 1.0, 0.0),
        (NAN, "<", 1.0, 0.0),
        (NAN, ">=", NAN, 0.0),
        (1.0, "<", INF, 1.0),
        (1.0, "<=", 1.0, 1.0),
        (1.0, ">", 1.0, 0.0),
        (1.0, ">=", 1.0, 1.0),
    ],
)
def test_arithmetic_follows_go_for_scalars_and_vectors(left, op, right, result):
    assert exactly(scalars(op)(left, right)) == exactly(result)
    for found in (
        vector_with_scalar(op, scalar_first=False, return_bool=True)([(of("m"), left)], right),
        vector_with_scalar(op, scalar_first=True, return_bool=True)([(of("m"), right)], left),
        vectors(op, Matching(), return_bool=True)([(of("m"), left)], [(of("n"), right)]),
    ):
        ((_, value),) = found
        assert exactly(value) == exactly(result)


@given(st.sampled_from(sorted({*ARITHMETIC, *COMPARISONS})), st.floats(), st.floats())
def test_no_two_numbers_are_an_error(op, left, right):
    assert isinstance(scalars(op)(left, right), float)


@given(st.lists(st.tuples(st.floats(), st.floats())), st.sampled_from(sorted(ARITHMETIC)))
def test_odd_number_does_not_change_other_elements(pairs, op):
    lefts = [(of("m", i=str(i)), left) for i, (left, _) in enumerate(pairs)]
    rights = [(of("n", i=str(i)), right) for i, (_, right) in enumerate(pairs)]
    found = vectors(op, Matching(), return_bool=False)(lefts, rights)
    assert [exactly(value) for _, value in found] == [exactly(scalars(op)(*pair)) for pair in pairs]


SERIES = [(of("m", i="0"), 1.0), (of("m", i="1"), 2.0), (of("n"), NAN)]


@pytest.mark.parametrize(
    ("op", "scalar_first", "kept"),
    [
        ("==", False, [1]),
        ("!=", False, [0, 2]),
        (">", False, []),
        (">=", True, [0, 1]),
        ("<", False, [0]),
        ("<", True, []),
        (">", True, [0]),
    ],
)
def test_comparison_filters_and_keeps_the_vectors_side_and_name(op, scalar_first, kept):
    found = vector_with_scalar(op, scalar_first, return_bool=False)(SERIES, 2.0)
    assert found == [SERIES[index] for index in kept]


@pytest.mark.parametrize("scalar_first", [False, True])
def test_bool_comparison_answers_for_each_element_without_the_name(scalar_first):
    found = vector_with_scalar(">=", scalar_first, return_bool=True)(SERIES, 1.0)
    yes = 1.0
    no = 0.0 if scalar_first else 1.0
    assert found == [(unnamed(i="0"), yes), (unnamed(i="1"), no), ((), 0.0)]


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%", "^"])
def test_arithmetic_drops_the_name(op):
    found = vector_with_scalar(op, scalar_first=False, return_bool=False)(
        [(of("m", i="0"), 2.0)], 1.0
    )
    assert [labels_ for labels_, _ in found] == [unnamed(i="0")]


def test_atan2_drops_the_name():
    one, unnamed_one = [(of("m", i="0"), 0.0)], [(unnamed(i="0"), 0.0)]
    drop = vector_with_scalar("atan2", scalar_first=False, return_bool=False)
    assert drop(one, 1.0) == unnamed_one
    both = vectors("atan2", Matching(), return_bool=False)
    assert both(one, [(of("n", i="0"), 1.0)]) == unnamed_one


def test_scalar_keeps_its_side():
    three = [(of("m"), 3.0)]
    assert vector_with_scalar("-", scalar_first=True, return_bool=False)(three, 1.0) == [((), -2.0)]
    assert vector_with_scalar("-", scalar_first=False, return_bool=False)(three, 1.0) == [((), 2.0)]


@pytest.mark.parametrize(("op", "return_bool"), [("+", False), (">", True)])
def test_results_that_differ_only_in_name_are_an_error(op, return_bool):
    operator = vector_with_scalar(op, scalar_first=False, return_bool=return_bool)
    two = [(of("m", i="0"), 1.0), (of("n", i="0"), 2.0)]
    for _ in range(2):  # and stay one
        with pytest.raises(EvaluationError, match="same labelset"):
            operator(two, 1.0)
    assert operator(two[:1], 0.0) == [(unnamed(i="0"), 1.0)]


def test_filter_may_hold_series_that_differ_only_in_name():
    two = [(of("m", i="0"), 1.0), (of("n", i="0"), 2.0)]
    assert vector_with_scalar(">", scalar_first=False, return_bool=False)(two, 0.0) == two


@pytest.mark.parametrize("op", sorted(SUPPORTED - {"and", "or", "unless"}))
def test_empty_input_has_an_empty_result(op):
    assert vector_with_scalar(op, scalar_first=False, return_bool=False)([], 1.0) == []
    both = vectors(op, Matching(), return_bool=False)
    assert both([], SERIES) == both(SERIES, []) == both([], []) == []
