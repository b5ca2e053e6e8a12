"""Timestamps of the Kubernetes API are read and written as RFC 3339."""

import pytest

from plimsoll import rfc3339


@pytest.mark.parametrize("at", [0.0, 1_800_000_000.0, 1_800_000_000.25])
def test_written_timestamp_parses_to_the_same_time(at: float) -> None:
    assert rfc3339.parse(rfc3339.millis(at)) == at
    assert rfc3339.parse(rfc3339.micros(at)) == at
    assert rfc3339.parse(rfc3339.seconds(at)) == int(at)


def test_timestamps_are_written_in_utc_with_the_requested_precision() -> None:
    at = 1_800_000_000.25
    assert rfc3339.seconds(at) == "2027-01-15T08:00:00Z"
    assert rfc3339.millis(at) == "2027-01-15T08:00:00.250Z"
    assert rfc3339.micros(at) == "2027-01-15T08:00:00.250000Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2027-01-15T08:00:00",
        "2027-13-01T00:00:00Z",
        "9999-12-31T23:59:59-23:00",  # beyond the years that can be written, in UTC
        "0001-01-01T00:00:00+23:00",
    ],
)
def test_invalid_timestamps_are_rejected(text: str) -> None:
    assert rfc3339.parse_or_none(text) is None
    with pytest.raises(ValueError, match=r".+"):
        rfc3339.parse(text)


def test_missing_timestamp_is_none() -> None:
    assert rfc3339.parse_or_none(None) is None


@pytest.mark.parametrize("at", [rfc3339.EARLIEST, rfc3339.LATEST])
def test_every_time_that_is_read_can_be_written(at: float) -> None:
    assert rfc3339.parse(rfc3339.micros(at)) == at


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("2027-01-15T08:00:00Z", 1_800_000_000.0),
        ("2027-01-15T09:00:00Z", 1_800_000_060.0),
        ("9999-12-31T23:59:59Z", 1_800_000_060.0),
        ("10000-01-01T00:00:00Z", None),
        ("", None),
        (None, None),
        (1_800_000_000.0, 1_800_000_000.0),
        (float("inf"), 1_800_000_060.0),
        (float("-inf"), None),
        (float("nan"), None),
        (-1e300, None),
    ],
)
def test_times_from_outside_are_bounded_by_now(given, found) -> None:
    assert rfc3339.bounded(given, 1_800_000_060.0) == found
