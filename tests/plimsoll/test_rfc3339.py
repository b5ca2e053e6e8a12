"""Points in time as Kubernetes writes them."""

import pytest

from plimsoll.rfc3339 import rfc3339, unix


@pytest.mark.parametrize("at", [0.0, 1_800_000_000.0, 1_800_000_000.25])
def test_what_is_written_is_read_again(at: float) -> None:
    assert unix(rfc3339(at)) == at


def test_it_is_written_in_milliseconds_and_utc() -> None:
    assert rfc3339(1_800_000_000) == "2027-01-15T08:00:00.000Z"


@pytest.mark.parametrize(
    "text", [None, "", "yesterday", "2027-01-15T08:00:00", "2027-13-01T00:00:00Z"]
)
def test_what_is_no_time(text: str | None) -> None:
    assert unix(text) is None
