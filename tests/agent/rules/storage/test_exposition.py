"""Recorded expositions: both formats, with and without timestamps, and invalid ones; which samples are visible when."""

import math

import pytest

from agent.rules.promql.labels import make, of_series
from agent.rules.promql.syntax.matchers import Matcher, Operator, Selector
from agent.rules.storage.exposition import ExpositionError, MemoryStorage, parse

NOW = 1_700_000_000_000


def labels(name, **pairs):
    return make({"__name__": name, **pairs}.items())


def test_text_format_without_timestamps_is_read():
    text = '# HELP a Help.\n# TYPE a gauge\na{x="1",y=""} 1.5\n a 2e3 \n\na{ x = "2" , } +Inf\nb{}NaN\n'
    found = parse(text)
    assert found.latest is None
    assert [(found, time) for found, time, _ in found.samples] == [
        (labels("a", x="1"), None),
        (labels("a"), None),
        (labels("a", x="2"), None),
        (labels("b"), None),
    ]
    assert [value for _, _, value in found.samples][:3] == [1.5, 2000.0, float("inf")]


def test_timestamps_are_milliseconds_in_text_and_seconds_in_openmetrics():
    text = "a_total 1 1700000000\na_total 2 1700000015\n"
    assert [time for _, time, _ in parse(text).samples] == [1_700_000_000, 1_700_000_015]
    found = parse(f"# TYPE a counter\n{text}a_total 3 1.7e9\n# EOF\n")
    assert [time for _, time, _ in found.samples] == [NOW, NOW + 15_000, NOW]
    assert found.latest == NOW + 15_000


def test_bounds_are_spelled_as_prometheus_stores_them():
    text = (
        '# TYPE h histogram\nh_bucket{le="1"} 4\nh_bucket{le="much"} 5\n'
        '# TYPE s summary\ns{quantile="0.50",le="1"} 1\n# TYPE g gauge\ng{le="1"} 1\n'
    )
    assert [found for found, _, _ in parse(text).samples] == [
        labels("h_bucket", le="1.0"),
        labels("h_bucket", le="much"),
        labels("s", quantile="0.5", le="1"),
        labels("g", le="1"),
    ]


def test_samples_are_ordered_by_time():
    found = parse("a 3 3000\na 1 1000\nb 7\na 2 2000\n").listed(3000)
    (a,) = found.select(Selector("a"))
    assert (a.window(0, 9000).times, a.window(0, 9000).values()) == ([1000, 2000, 3000], [1, 2, 3])
    (b,) = found.select(Selector("b"))
    assert b.at(3000, 0) == (3000, 7.0)


def test_exemplars_types_and_odd_names_are_accepted():
    text = (
        "# TYPE h gaugehistogram\n# UNIT h seconds\n"
        'h_bucket{le="1.0",p="a}b,c=\\"d\\"\\n"} 4 1700000000.5 # {trace="x"} 0.5 1700000000\n'
        '{"m.with.dots","l.x"="y"} 1\n# EOF\n'
    )
    found = parse(text).samples
    assert found[0][0] == labels("h_bucket", le="1.0", p='a}b,c="d"\n')
    assert found[0][1:] == (NOW + 500, 4.0)
    assert found[1][0] == make({"__name__": "m.with.dots", "l.x": "y"}.items())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("<html>", "not a sample: '<html>'"),
        ("a", "not a sample"),
        ("a 1 2 3", "not a sample"),
        ("a{b=c} 1", "not labels: 'b=c'"),
        ("a{b='c'} 1", "not labels"),
        ('a{b="c" 1', "not a sample"),
        ("{} 1", "a sample without a name"),
        ("a 0x10", "not a number: '0x10'"),
        ("a 1 1.5", "not a time: '1.5'"),
        ("a 1 99999999999999999999", "not a time"),
        ("a 1 200000000000000", "not a time of ours"),
        ("\x1b]0;x 1", r"not a sample: '\x1b]0;x 1'"),
    ],
)
def test_invalid_exposition_is_reported_with_its_line(line, says):
    with pytest.raises(ExpositionError) as caught:
        parse(f"# TYPE a gauge\na 1\n{line}\n")
    assert str(caught.value).startswith(f"line 3: {says}")


@pytest.mark.parametrize("time", ["inf", "nan", "1e300", "x"])
def test_openmetrics_timestamps_out_of_range_are_rejected(time):
    with pytest.raises(ExpositionError, match="line 1: not a "):
        parse(f"a 1 {time}\n# EOF\n")


def test_duplicate_sample_of_one_time_is_rejected():
    with pytest.raises(ExpositionError, match=r'twice at one time: a\{b="c"\}'):
        parse('a{b="c"} 1\na{b="c"} 1\n').listed(NOW)


@pytest.mark.parametrize(
    "line",
    [
        "{" * 100_000,
        'a{b="' + "\\" * 100_001,
        "a{" + 'b="c",' * 50_000,
        "a{" + 'b="c",' * 200_000 + "} x",
    ],
)
def test_hostile_line_takes_linear_time(line):
    with pytest.raises(ExpositionError):
        parse(line)


UP = of_series("up", (("job", "a"),))


def of(*marks):
    (series,) = MemoryStorage({UP: marks}).select(Selector("up"))
    return series


@pytest.mark.parametrize(
    ("time", "after", "found"),
    [
        (999, 0, None),
        (1000, 0, (1000, 1.0)),
        (1000, 999, (1000, 1.0)),
        (1000, 1000, None),
        (1999, 0, (1000, 1.0)),
        (2000, 0, None),
        (2999, 0, None),
        (3000, 0, (3000, 3.0)),
        (9000, 0, (3000, 3.0)),
        (9000, 3000, None),
    ],
)
def test_latest_sample_counts_unless_old_or_stale(time, after, found):
    assert of((1000, 1.0), (2000, None), (3000, 3.0)).at(time, after) == found


def test_window_includes_both_ends_and_no_stale_markers():
    series = of((1000, 1.0), (2000, 1.0), (3000, None), (4000, 1.0), (5000, 2.0))
    whole = series.window(1000, 5000)
    assert (whole.times, whole.levels, whole.repeats) == (
        [1000, 2000, 4000, 5000],
        [1.0, 2.0],
        [3, 1],
    )
    assert whole.values() == [1.0, 1.0, 1.0, 2.0]
    assert series.window(1001, 4999).times == [2000, 4000]
    assert series.window(2001, 3999) is None
    assert series.window(5001, 9000) is None


def test_nan_is_one_level():
    window = of((1, math.nan), (2, math.nan), (3, 1.0)).window(0, 3)
    assert window.repeats == [2, 1]
    assert math.isnan(window.levels[0])


def test_series_are_found_by_name_or_any_label():
    down = of_series("down", (("job", "a"),))
    nameless = make([("job", "b")])
    listed = MemoryStorage({series: [(1, 1.0)] for series in (UP, down, nameless)})

    def found(*selector):
        return [series.labels for series in listed.select(Selector(*selector))]

    assert found("up") == [UP]
    assert found("nothing") == []
    assert found("", (Matcher("job", Operator.EQUAL, "a"),)) == [UP, down]
    assert found("", (Matcher("job", Operator.NOT_EQUAL, "a"),)) == [nameless]
    assert found("down", (Matcher("job", Operator.NOT_EQUAL, "a"),)) == []


@pytest.mark.parametrize("time", [5, 4])
def test_series_advances_in_time(time):
    with pytest.raises(ValueError, match="does not come after"):
        of((5, 1.0), (time, 2.0))
