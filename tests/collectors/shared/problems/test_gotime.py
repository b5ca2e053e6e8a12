"""Times in Go's layouts."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from collectors.shared.problems.gotime import Layout, LayoutError

NOW = datetime(2026, 8, 22, 12, tzinfo=timezone(timedelta(hours=2)))


def unix(*parts: int, hours: int = 2, micros: int = 0) -> float:
    return datetime(*parts, tzinfo=timezone(timedelta(hours=hours))).timestamp() + micros / 1e6


@pytest.mark.parametrize(
    ("layout", "text", "seconds"),
    [
        ("2006-01-02T15:04:05.999999999-07:00", "2026-01-31T23:59:58.250000000-05:00", unix(2026, 1, 31, 23, 59, 58, hours=-5, micros=250_000)),
        ("2006-01-02T15:04:05.999999999-07:00", "2026-01-31T23:59:58+00:00", unix(2026, 1, 31, 23, 59, 58, hours=0)),
        ("Jan _2 15:04:05", "Aug  2 01:02:03", unix(2026, 8, 2, 1, 2, 3)),
        ("Jan _2 15:04:05", "Aug 12 01:02:03", unix(2026, 8, 12, 1, 2, 3)),
        ("2006-01-02T15:04:05Z07:00", "2026-08-12T01:02:03Z", datetime(2026, 8, 12, 1, 2, 3, tzinfo=UTC).timestamp()),
        ("Mon Jan 02 15:04:05 MST 2006", "Sat Aug 22 10:00:00 UTC 2026", datetime(2026, 8, 22, 10, tzinfo=UTC).timestamp()),
        ("2006/01/02 15:04:05.000", "2026/08/22 10:00:00.125", unix(2026, 8, 22, 10, micros=125_000)),
        ("2006-01-02 15:04:05", "2016-12-31 23:59:60", unix(2016, 12, 31, 23, 59, 59)),  # a leap second
    ],
)  # fmt: skip
def test_times_are_parsed(layout: str, text: str, seconds: float) -> None:
    assert Layout(layout).parse(text, NOW) == pytest.approx(seconds, abs=1e-4)


@pytest.mark.parametrize(
    ("now", "text", "seconds"),
    [
        ((2026, 11, 26), "Dec 20 10:15:02", unix(2025, 12, 20, 10, 15, 2)),
        ((2026, 1, 1), "Dec 31 23:59:59", unix(2025, 12, 31, 23, 59, 59)),
        ((2025, 12, 31, 23), "Jan  1 00:30:00", unix(2026, 1, 1, 0, 30)),
        ((2026, 3, 1), "Feb 29 01:02:03", unix(2024, 2, 29, 1, 2, 3)),
    ],
)
def test_time_without_a_year_is_the_last_one(
    now: tuple[int, ...], text: str, seconds: float
) -> None:
    read = datetime(*now, tzinfo=timezone(timedelta(hours=2)))
    assert Layout("Jan _2 15:04:05").parse(text, read) == seconds


def test_year_far_ahead_is_an_error() -> None:
    with pytest.raises(ValueError, match="up to a day from now"):
        Layout("2006-01-02 15:04:05").parse("2099-01-02 01:02:03", NOW)


@pytest.mark.parametrize("text", ["", "Foo  2 01:02:03", "Aug 32 01:02:03", "Aug  2 25:02:03", "x"])
def test_other_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"layout|not a month|day|hour"):
        Layout("Jan _2 15:04:05").parse(text, NOW)


@pytest.mark.parametrize("layout", ["", "2006", "15:04:05", "02 02 15:04:05"])
def test_layout_without_a_time_or_with_a_part_twice_is_an_error(layout: str) -> None:
    with pytest.raises(LayoutError):
        Layout(layout)
