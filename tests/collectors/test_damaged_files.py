"""Real kernel output with parts removed, duplicated, swapped or overwritten gives CollectorError or unique series."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.interface.sample import CollectorError, Family
from tests.collectors.declared import declared

XEON = Path(__file__).parent / "fixtures/xeon"
Parser = Callable[[str], Iterable[object]]
SAMPLES: dict[str, tuple[str, Parser]] = declared("SAMPLES")
"""A file of the fixture, or a text with lines, and its parser."""
TEXTS = {
    name: (sample if "\n" in sample else (XEON / sample).read_text(), parse)
    for name, (sample, parse) in SAMPLES.items()
}
INSERTS = st.sampled_from(
    ["", " ", "\n", "\t", ":", "=", "-", "-1", "x", "0x10", "1_0", "9" * 30, "\0", "é", "\u2028", '"', "'", "\\", ",", "(", ")", "\ufffd", "²"]
)  # fmt: skip
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 30), INSERTS, st.booleans()), min_size=1, max_size=4
)


def damaged(text: str, edits: list[tuple[float, int, str, bool]]) -> str:
    """Each edit removes or duplicates a part of the text and inserts something in its place."""
    for place, length, insert, double in edits:
        begin = int(place * len(text))
        piece = text[begin : begin + length]
        text = text[:begin] + (piece * 2 if double else "") + insert + text[begin + length :]
    return text


@pytest.mark.parametrize("name", TEXTS)
def test_undamaged_text_is_parsed(name: str) -> None:
    text, parse = TEXTS[name]
    assert list(parse(text))


@pytest.mark.parametrize("name", TEXTS)
@given(edits=EDITS)
def test_damage_is_an_error_or_harmless(
    name: str, edits: list[tuple[float, int, str, bool]]
) -> None:
    text, parse = TEXTS[name]
    with contextlib.suppress(CollectorError):
        families = [found for found in parse(damaged(text, edits)) if isinstance(found, Family)]
        series = Counter((s.name, s.labels) for family in families for s in family.samples)
        assert [s for s, times in series.items() if times > 1] == []
        assert len({family.name for family in families}) == len(families)


@pytest.mark.parametrize("name", TEXTS)
def test_file_may_end_anywhere(name: str) -> None:
    text, parse = TEXTS[name]
    for end in range(min(len(text), 600)):
        with contextlib.suppress(CollectorError):
            list(parse(text[:end]))
