"""Equivalent pairs of whole expressions, and random expressions of any shape."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.rules.promql import labels
from agent.rules.promql.expression import parse
from agent.rules.promql.values import EvaluationError, Moment
from agent.rules.storage.exposition import MemoryStorage
from tests.examples import examples

NOW = 1_700_000_000_000

SAME = [
    ("m", "+m"),
    ("m", "m and m"),
    ("m", "m == m"),
    ("m", "m > 0 or m == 0 or m < 0"),
    ("-m", "m * -1"),
    ("-m", "0 - m"),
    ("m - n", "m + -n"),
    ("m * n", "n * m"),
    ("m / n", "m * n ^ -1"),
    ("m ^ 2", "m * m"),
    ("m % 7", "m - 7 * sgn(m) * floor(abs(m) / 7)"),
    ("-m ^ 2", "-(m * m)"),
    ("2 ^ 3 ^ 2 + 0 * m", "512 + 0 * m"),
    ("m - n - n", "m - 2 * n"),
    ("2 <= m", "m >= 2"),
    ("2 == bool m", "m == bool 2"),
    ("m > bool 2", "1 - (m <= bool 2)"),
    ("m > 2", "m and (m > bool 2) == 1"),
    ("m > n", "m and (m > bool n) == 1"),
    ("m <= n", "(m < n) or (m == n)"),
    ("m != n", "(m and n) unless (m == n)"),
    ("m and n", "m unless (m unless n)"),
    ("m or n", "m or (n unless m)"),
    ("m and on () n", "m and on () absent(absent(n))"),
    ("(m or n) and n", "(m and n) or n"),
    ("m and on (a) n", "m and ignoring (b, c) n"),
    ("m unless on (a, b, c) n", "m unless n"),
    ("m + on (a) group_left () n", "n + on (a) group_right () m"),
    ("m - ignoring (c) group_left (d) n", "-(n - ignoring (c) group_right (d) m)"),
    ("m + on (a, b, c) n", "m + n"),
    ("m + ignoring () group_left n", "m + n"),
    ("m > bool on (a) group_left () n", "n < bool on (a) group_right () m"),
    ("m / on () group_left () sum(m)", "m / scalar(sum(m))"),
    ("sum(m)", "sum(sum by (a, b) (m))"),
    ("sum by (a) (m)", "sum without (b, c) (m)"),
    ("sum by (a) (m)", "avg by (a) (m) * count by (a) (m)"),
    ("sum(m)", "(sum(topk(2, m)) or vector(0)) + (sum(m unless topk(2, m)) or 0 * sum(m))"),
    ("avg without (c) (m)", "sum without (c) (m) / count without (c) (m)"),
    ("stdvar by (b) (m)", "stddev by (b) (m) ^ 2"),
    ("stdvar(m)", "avg((m - scalar(avg(m))) ^ 2)"),
    ("min by (a) (m)", "-max by (a) (-m)"),
    ("min by (a) (m)", "quantile by (a) (0, m)"),
    ("max by (a) (m)", "quantile by (a) (1, m)"),
    ("max(m)", "max(topk(1, m))"),
    ("topk by (a) (2, m)", "topk by (a) (2, topk by (a) (3, m))"),
    ("count by (a) (m)", "sum by (a) (group without (d) (m))"),
    ("count by (a) (m)", 'sum by (a) (count_values by (a) ("v", m))'),
    ("group by (a) (m)", "count by (a) (m) > bool 0"),
    ("absent(m)", "vector(1) unless on () m"),
]


def vectors_of(name, values):
    """Series of one metric at one time; many have each label, and many lack it."""
    pairs = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"))
    sets = pairs.map(lambda found: labels.make([*found.items(), ("__name__", name)]))
    return st.dictionaries(sets, values.map(lambda value: [(NOW, value)]), max_size=8)


def moments(values):
    """Samples of m, n and o, now."""
    some = st.tuples(*(vectors_of(name, values) for name in "mno"))
    return some.map(lambda found: Moment(MemoryStorage(found[0] | found[1] | found[2]), NOW))


def outcome(expression, moment):
    """A vector as a dictionary, or that these samples cause an error."""
    try:
        found = expression.evaluate(moment)
    except EvaluationError:
        return EvaluationError
    assert len(dict(found)) == len(found)
    return dict(found)


@settings(max_examples=examples(25))
@given(moments(st.integers(-30, 30).map(float)))
def test_equivalent_expressions_have_equal_results(pairs, moment):
    for one, other in pairs:
        expected = pytest.approx(outcome(other, moment), nan_ok=True, abs=1e-9)
        assert outcome(one, moment) == expected, (one.text, other.text)


@pytest.fixture(scope="module")
def pairs():
    return [(parse(one), parse(other)) for one, other in SAME]


ARITHMETIC = ["+", "-", "*", "/", "%", "^", "atan2"]
COMPARISONS = ["==", "!=", ">", "<", ">=", "<="]
SETS = ["and", "or", "unless"]
NAMES = st.lists(st.sampled_from(["a", "b", "d", "__name__"]), unique=True).map(", ".join)
CLAUSES = st.just("") | st.builds("{} ({})".format, st.sampled_from(["by", "without"]), NAMES)
MATCHINGS = st.just("") | st.builds("{} ({})".format, st.sampled_from(["on", "ignoring"]), NAMES)
NUMBERS = st.sampled_from(["0", "-1", "0.5", "2", "1e308", "Inf", "NaN"])
COMPARING = st.builds("{}{}".format, st.sampled_from(COMPARISONS), st.sampled_from(["", " bool"]))
COMPUTING = st.sampled_from(ARITHMETIC) | COMPARING
AGGREGATIONS = st.sampled_from(
    ["sum", "min", "max", "avg", "count", "stddev", "stdvar", "group"]
).map("{} {{}} (".format) | st.sampled_from(
    ["quantile {} (0.4, ", "topk {} (2, ", "bottomk {} (2, ", 'count_values {} ("a", ']
)


def larger(inner):
    """Expressions of vectors, one level up."""
    return (
        st.builds("({} {} {})".format, inner, COMPUTING, NUMBERS)
        | st.builds("({} {} {})".format, NUMBERS, COMPUTING, inner)
        | st.builds(
            "({} {} {} {})".format, inner, COMPUTING | st.sampled_from(SETS), MATCHINGS, inner
        )
        | st.builds("({} {} ignoring (b) group_left () {})".format, inner, COMPUTING, inner)
        | st.builds("({} {} on (a) group_right (b) {})".format, inner, COMPUTING, inner)
        | st.builds(lambda op, by, of: f"{op.format(by)}{of})", AGGREGATIONS, CLAUSES, inner)
    )


EXPRESSIONS = st.recursive(st.sampled_from(["m", "n", "o", '{a="x"}']), larger, max_leaves=6)


@settings(max_examples=examples(25))
@given(EXPRESSIONS, moments(st.floats()))
@example("stddev (m)", Moment(MemoryStorage(), NOW))
def test_any_expression_and_numbers_give_a_vector_or_an_evaluation_error(text, moment):
    found = outcome(parse(text), moment)
    assert found is EvaluationError or all(isinstance(value, float) for value in found.values())


@settings(max_examples=examples(25))
@given(EXPRESSIONS, moments(st.integers(-3, 3).map(float)), moments(st.just(math.nan)))
def test_expression_keeps_no_state_of_other_samples(text, moment, other):
    again = parse(text)
    try:
        expected = again.evaluate(moment)
    except EvaluationError:
        return
    for between in (other, moment):
        try:
            found = again.evaluate(between)
        except EvaluationError:
            assert between is other
    assert repr(found) == repr(expected)
