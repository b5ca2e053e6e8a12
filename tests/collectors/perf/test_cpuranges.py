import pytest

from collectors.perf import parse_ranges


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        ("3", [3]),
        ("0,2-4", [0, 2, 3, 4]),
        ("1-10:5", [1, 6]),
        ("6-12:3,0", [0, 6, 9, 12]),
        ("4-2", []),
    ],
)
def test_ranges_are_parsed(text: str, cpus: list[int]) -> None:
    assert parse_ranges(text) == cpus


@pytest.mark.parametrize("text", ["x", "1-", "-1", "1-2-3", "1:2", "0-5:0", "99999"])
def test_other_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of CPUs"):
        parse_ranges(text)
