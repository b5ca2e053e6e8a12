"""Expressions: accepted, rejected with a reason, their inputs and their values."""

import math

import pytest

from agent.rules.promql import labels
from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.expression import parse
from agent.rules.promql.values import EvaluationError, Moment
from agent.rules.storage.exposition import MemoryStorage

MINUTE = 60_000
A = labels.of_series("a", (("x", "1"),))
B = labels.of_series("b", (("x", "1"),))
GONE = labels.of_series("gone", ())
PLAIN = labels.make([("x", "1")])


@pytest.fixture
def storage():
    """A minute between samples: a is 0, 2, 4, ..., b stays at 3; `gone` is stale after 10 minutes."""
    return MemoryStorage(
        {
            A: [(minute * MINUTE, 2.0 * minute) for minute in range(31)],
            B: [(minute * MINUTE, 3.0) for minute in range(31)],
            GONE: [*((minute * MINUTE, 1.0) for minute in range(10)), (10 * MINUTE, None)],
        }
    )


@pytest.fixture
def at(storage):
    """Evaluate a text this many seconds after the first sample."""

    def evaluate(text, seconds=1200, *, epoch=0, step=MINUTE):
        return parse(text).evaluate(Moment(storage, int(seconds * 1000), epoch, step))

    return evaluate


def refusal(text):
    with pytest.raises(ExpressionError) as raised:
        parse(text)
    return raised.value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "(",
        "a{",
        "a b",
        "foo(a)",
        "a[0s]",
        'a{x=~"["}',
        "a[300000y]",
        "a offset 9999999999y",
        "rate(a[300000000y])",
    ],
)
def test_invalid_promql_does_not_parse(text):
    assert refusal(text).reason == "parse"


@pytest.mark.parametrize(
    "text",
    [
        "rate(a)",
        "rate(5)",
        "a[5m]",
        "vector(1)[5m:]",
        "1 == 2",
        "sum(1)",
        "scalar(1)",
        "1 and 2",
        '"x" + 1',
        '-"x"',
        "sum(a, b)",
        "rate(a[5m], 1)",
        'quantile("x", a)',
        "a[5m][5m:]",
        "time()[5m:]",
        "a + bool b",
        "a unless on(x) group_left b",
    ],
)
def test_promql_of_the_wrong_type_is_a_type_error(text):
    assert refusal(text).reason == "type"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a @ 5", "@"),
        ("a @ start()", "@"),
        ("a @ 1e99", "@"),
        ("rate(a[5m] @ 3)", "@"),
        ("max_over_time(a[5m:] @ end())", "@"),
        ("mad_over_time(a[5m])", "mad_over_time()"),
        ("limitk(2, a)", "limitk()"),
        ("limit_ratio(0.5, a)", "limit_ratio()"),
        ("a + fill(0) b", "fill"),
        ("a + fill_left(0) b", "fill"),
        ('{a="b" or c="d"}', "`or` between matchers"),
        ("sort(a)", "sort()"),
        ("sort_desc(a)", "sort_desc()"),
        ("holt_winters(a[5m], 0.5, 0.5)", "holt_winters()"),
        ("double_exponential_smoothing(a[5m], 0.5, 0.5)", "double_exponential_smoothing()"),
        ("sin(a)", "sin()"),
        ("pi()", "pi()"),
        ("day_of_week()", "day_of_week()"),
        ("hour()", "hour()"),
        ("histogram_fraction(0, 1, a)", "histogram_fraction()"),
        ("info(a)", "info()"),
        ('{"a.b"}', "quoted name"),
        ('a{"x.y"="z"}', "quoted name"),
        ('sum by ("x") (a)', "quoted name"),
        ('a + on (x, "y") group_left b', "quoted name"),
        ("rate(a[5m + 1m])", "the duration '5m + 1m'"),
        ("rate(a[1h-30m])", "the duration '1h-30m'"),
        ("rate(a[5m] anchored)", "anchored"),
        ("a smoothed", "smoothed"),
        ("a </ 5", "</"),
        ("histogram_avg(a)", "histogram_avg()"),
        ("first_over_time(a[5m])", "first_over_time()"),
        ('count_values("a-b", a)', "the label name 'a-b'"),
        ('count_values("", a)', "the label name ''"),
        ('label_replace(a, "a.b", "", "x", "")', "the label name 'a.b'"),
        ('a{x="\\xff"}', "a byte"),
        ('a{x=~"\\\\C"}', "\\C in the regular expression"),
        ("max_over_time(a[24h:1s])", "86401 steps"),
        ("max_over_time(max_over_time(a[1h:5s])[1h:1m])", "44042 steps"),
        ("max_over_time(a[8h:5s]) + max_over_time(b[8h:5s])", "11522 steps"),
    ],
)
def test_unsupported_feature_is_named(text, name):
    refused = refusal(text)
    assert refused.reason == "unsupported"
    assert name in str(refused)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000 + "1" + ")" * 100_000,
        "(" * 10_000 + "1" + ")" * 10_000,
        "-" * 10_000 + "a",
        "- " * 9_000 + "a",
        "+".join(["a"] * 9_000),
        " or ".join(["a"] * 3_000),
        "abs(" * 450 + "a" + ")" * 450,
        "^".join(["2"] * 400),
        "sum by (x) (" * 300 + "a" + ")" * 300,
        f'a{{x=~"{"(" * 1001}b{")" * 1001}"}}',
    ],
    ids=lambda text: f"{text[:12]}, {len(text)} characters",
)
def test_too_deep_expression_is_rejected_without_a_crash(text):
    refused = refusal(text)
    assert refused.reason in {"parse", "unsupported"}


@pytest.mark.parametrize(
    ("opening", "closing"), [("abs(", ")"), ("(", ")"), ("max_over_time(", "[1m:1m] offset -1m)")]
)
def test_deepest_allowed_expression_is_evaluated(at, opening, closing):
    levels = 99 if "[" not in closing else 6  # two steps each
    assert at(opening * levels + "b" + closing * levels)


def needs(text):
    return {(need.selector.metric, need.reach // 1000) for need in parse(text).needs}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", set()),
        ("a", {("a", 0)}),
        ('{__name__="a"}', {("a", 0)}),
        ('{__name__=~"a"}', {("", 0)}),
        ("a offset 1m", {("a", 360)}),
        ("a offset -1m", {("a", 240)}),
        ("a offset -10m", {("a", 0)}),
        ("rate(a[5m])", {("a", 300)}),
        ("rate(a[5m] offset 1h)", {("a", 3900)}),
        ("rate(a[5m] offset -1m)", {("a", 240)}),
        ("a + rate(a[5m]) / rate(b[1m])", {("a", 300), ("b", 60)}),
        ("max_over_time(a[10m:1m])", {("a", 900)}),
        ("max_over_time(rate(a[5m])[10m:1m])", {("a", 900)}),
        ("max_over_time(rate(a[5m] offset 1m)[10m:1m] offset 2m)", {("a", 1080)}),
        (
            "min_over_time(max_over_time((a + rate(b[5m]))[10m:1m] offset 1m)[1h:5m] offset 2m)",
            {("a", 4680), ("b", 4680)},
        ),
        ("max_over_time(a[1m:1m] offset -1m)", {("a", 300)}),
    ],
)
def test_needs_add_up_ranges_offsets_and_subqueries(text, expected):
    assert needs(text) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "scalar"),
        ("time()", "scalar"),
        ("scalar(a)", "scalar"),
        ("a", "vector"),
        ('"x"', "string"),
    ],
)
def test_result_type_is_known_before_evaluation(text, kind):
    assert parse(text).kind == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-1 ^ 2", -1.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("(1 + 2) * 3 - 4 / 2 % 3", 7.0),
        ("1 > bool 2", 0.0),
        ('"text"', "text"),
        ("time()", 1200.0),
        ("scalar(b)", 3.0),
        ("a", [(A, 40.0)]),
        ("+a", [(A, 40.0)]),
        ("-a", [(PLAIN, -40.0)]),
        ("(a)", [(A, 40.0)]),
        ("a offset 5m", [(A, 30.0)]),
        ("a offset -5m", [(A, 50.0)]),
        ("a\n  offset\n  5m # five", [(A, 30.0)]),
        ("max_over_time ( a [ 5m : 2m ] offset 1m )", [(PLAIN, 36.0)]),
        ('{__name__="a", x!="2"}', [(A, 40.0)]),
        ('{__name__=~"a|c"}', [(A, 40.0)]),
        ('a{x=~"2|3"}', []),
        ('a{y=""}', [(A, 40.0)]),
        ('{__name__="a", x=~`\\d`}', [(A, 40.0)]),
        ('a{x!=`"\\s\n`}', [(A, 40.0)]),
        ("gone", []),
        ("count_over_time(gone[15m])", [((), 4.0)]),
        ("rate(a[5m])", [(PLAIN, 2 / 60)]),
        ("a offset 300", [(A, 30.0)]),
        ("a offset -3e2", [(A, 50.0)]),
        ("max_over_time(a[300 : 0x78] offset 60.0)", [(PLAIN, 36.0)]),
        ("a + 1m", [(PLAIN, 100.0)]),
        ("a - 1h30m", [(PLAIN, 40.0 - 5400)]),
        ("a + 1_000.5", [(PLAIN, 1040.5)]),
        ("a + 0x_1_0", [(PLAIN, 56.0)]),
        ('a{x=~"(?<n>1)"}', [(A, 40.0)]),
        ("increase(a[5m] offset 5m)", [(PLAIN, 10.0)]),
        ("last_over_time(a[5m])", [(A, 40.0)]),
        ("quantile_over_time(scalar(vector(1)), a[5m])", [(PLAIN, 40.0)]),
        ("predict_linear(a[5m] offset 5m, 60)", [(PLAIN, 42.0)]),
        ("count_over_time(a[5m:2m])", [(PLAIN, 3.0)]),
        ("max_over_time(a[5m:2m] offset 1m)", [(PLAIN, 36.0)]),
        ("sum_over_time(rate(a[2m])[3m:])", [(PLAIN, 3 * 2 / 60)]),
        ("changes(b[10m:])", [(PLAIN, 0.0)]),
        ("max_over_time(max_over_time(a[3m:1m])[5m:5m] offset -1m)", [(PLAIN, 40.0)]),
        ("clamp(a, 0, 5)", [(PLAIN, 5.0)]),
        ("clamp(a, 5, 0)", []),
        ("round(b, 2)", [(PLAIN, 4.0)]),
        ("vector(7)", [((), 7.0)]),
        ("timestamp(a)", [(PLAIN, 1200.0)]),
        ("absent(a)", []),
        ('absent(c{x="1", y=~"2", z="3", z="4"})', [(PLAIN, 1.0)]),
        ('absent((c{x="1"}))', [(PLAIN, 1.0)]),
        ("absent(sum(c))", [((), 1.0)]),
        ('absent_over_time(c{x="1"}[5m])', [(PLAIN, 1.0)]),
        ('absent_over_time(c{x="1"}[5m:])', [((), 1.0)]),
        ("absent_over_time(a[5m])", []),
        ("sum by (x) (a)", [(PLAIN, 40.0)]),
        ("sum without (x) (a)", [((), 40.0)]),
        ("topk(1, a)", [(A, 40.0)]),
        ('count_values("v", b)', [(labels.make([("v", "3")]), 1.0)]),
        ("a + 1", [(PLAIN, 41.0)]),
        ("100 - a", [(PLAIN, 60.0)]),
        ("a > 100", []),
        ("10 < a", [(A, 40.0)]),
        ("a > bool 100", [(PLAIN, 0.0)]),
        ("a / b", [(PLAIN, 40 / 3)]),
        ("a / on () group_left b", [(PLAIN, 40 / 3)]),
        ("b * on () group_right (x) a", [(PLAIN, 120.0)]),
        ("a and b", [(A, 40.0)]),
        ("a unless b", []),
        ("gone or b", [(B, 3.0)]),
        ('label_replace(a, "y", "$1-", "x", "(.)")', [((*A, ("y", "1-")), 40.0)]),
        ('label_join(a, "y", "-", "x", "x")', [((*A, ("y", "1-1")), 40.0)]),
    ],
)
def test_expressions_have_the_values_of_prometheus(at, text, expected):
    assert at(text) == expected


def test_sample_counts_for_less_than_five_minutes(at):
    assert at("a", 2099.999) == [(A, 60.0)]
    assert at("a", 2100) == []


def test_too_long_or_empty_duration_is_an_error():
    assert "out of range" in str(refusal("rate(a[1e99])"))
    assert "out of range" in str(refusal("a offset 1e11"))
    assert "greater than 0" in str(refusal("rate(a[0])"))


def test_timestamp_is_the_samples_unix_time_or_the_evaluation_time(at):
    assert at("timestamp(a)", 1230, epoch=1_000_000) == [(PLAIN, 2200.0)]
    assert at("timestamp((a offset 1m))", 1230) == [(PLAIN, 1140.0)]
    assert at("timestamp(a + 0)", 1230, epoch=1_000_000) == [(PLAIN, 2230.0)]
    assert at("time()", 1230, epoch=1_000_000) == 2230.0


def test_subqueries_step_on_multiples_of_their_step_in_unix_time(at):
    # Unix time is 20 s ahead, so full minutes are at 1180, 1120, ... of the storage's clock.
    assert at("min_over_time(timestamp(a + 0)[2m:1m])", 1200, epoch=20_000) == [(PLAIN, 1140.0)]
    assert at("count_over_time(a[2m:])", 1200, step=30_000) == [(PLAIN, 4.0)]


def test_scalar_of_other_than_one_element_is_nan(at):
    assert math.isnan(at('scalar({x="1"})'))
    assert math.isnan(at("scalar(c)"))


@pytest.mark.parametrize(
    "text",
    [
        '-{x="1"}',
        'abs({x="1"})',
        'rate({x="1"}[5m])',
        'timestamp({x="1"})',
        '{x="1"} + 1',
        'a / on () group_left {x="1"}',
        'max_over_time({x="1"}[5m:])',
    ],
)
def test_series_that_become_equal_are_an_error(at, text):
    with pytest.raises(EvaluationError):
        at(text)


def test_subquery_with_too_many_default_steps_is_an_error(at):
    assert parse("max_over_time(a[12h:])")
    with pytest.raises(EvaluationError, match="43200 steps"):
        at("max_over_time(a[12h:])", step=1000)
