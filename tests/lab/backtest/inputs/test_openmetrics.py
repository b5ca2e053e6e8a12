"""Reading OpenMetrics text: runs of lines that are parsed at once give what lines parsed one by one give."""

import io
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lab.backtest.inputs.openmetrics import OpenMetricsError, SeriesTable
from tests.examples import examples

heads = st.sampled_from(
    [
        "up",
        'up{node="a"}',
        'up{node="a", x="b c"}',
        'up{node="b"}',
        "down",
        "up up",
        "",
        "# TYPE up",
    ]
)
numbers = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**12), 10**12).map(str),
    st.sampled_from(
        [
            "1e999",
            "-0",
            "01",
            "+1",
            "1_0",
            ".5",
            "5.",
            "1e+06",
            "+Inf",
            "NaN",
            "",
            "x",
            "1-2",
            "1,2",
        ]
    ),
)
rows = st.tuples(numbers, numbers).map(" ".join) | st.lists(numbers, max_size=4).map(" ".join)
plain = st.tuples(st.integers(0, 99), st.integers(0, 10**9)).map(lambda p: f"{p[0]} {p[1]}.5")
runs = st.tuples(heads, st.lists(plain | rows, max_size=8) | st.lists(plain, max_size=8))


def outcome(text, **sizes):
    table = SeriesTable(lambda name: name != "down", **sizes)
    try:
        table.read("text", io.BytesIO(text))
    except OpenMetricsError as error:
        return str(error)
    series = [
        (one.name, one.labels, [*one.times], [repr(value + 0) for value in one.values])
        for one in table.series
    ]
    return table.lines, series


@settings(max_examples=examples(100))
@given(st.lists(runs, max_size=5), st.integers(1, 300), st.booleans())
@example([("up", ["1 2 3", "4"])], 300, True)
@example([("down", ["1 2 3", "4"])], 300, True)
@example([("up", ["-0 1"])], 300, True)
def test_runs_give_what_single_lines_give(found, block, ends):
    text = "\n".join(f"{head} {row}" for head, rows in found for row in rows)
    data = f"{text}\n".encode() if ends else text.encode()
    assert outcome(data, block=block, shortest=1) == outcome(data, shortest=math.inf)


@pytest.mark.parametrize("time", ["1763164800000", "NaN", "+Inf", "1e999", "-7e10"])
def test_a_time_that_is_not_in_seconds_is_an_error(time):
    rows = [f"up 1 {time}\n"] * 100
    assert outcome("".join(rows).encode()) == "text: line 1: its time is not in seconds"


def test_an_error_names_its_line_after_a_run():
    lines = [f'up{{node="a"}} {n} {n}\n' for n in range(1000)]
    text = "".join(["# TYPE up gauge\n", *lines, "what\n", *lines]).encode()
    assert outcome(text).startswith("text: line 1002 is not a sample with a timestamp")
