import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.sizes import format_size, size


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("5B", 5), ("16KiB", 16384), ("128MiB", 134217728), ("2GiB", 2147483648)],
)
def test_size_is_a_number_of_bytes(text, number):
    assert size(text) == number


@pytest.mark.parametrize(
    "text", ["", "0", "0MiB", "-1", "1.5MiB", "1KB", "1 KiB", "KiB", "१", "9" * 99]
)
def test_invalid_size_is_reported_in_a_sentence(text):
    with pytest.raises(ValueError, match="write it like"):
        size(text)


@given(st.integers(1, 10**14))
def test_shown_size_can_be_parsed(number):
    assert size(format_size(number)) == number
