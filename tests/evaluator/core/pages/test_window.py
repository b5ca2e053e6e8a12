"""Which entries of a list a page shows."""

from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.pages.window import Window


@given(st.integers(0, 60), st.integers(1, 10), st.integers(1, 12))
def test_pages_have_every_entry_once_and_a_page_too_far_is_the_last(count, size, far):
    entries = list(range(count))
    pages = Window(size=size).described(count, count).pages
    shown = [list(Window(page=page, size=size).shown(entries)) for page in range(1, pages + 1)]
    assert [one for page in shown for one in page] == entries
    beyond = Window(page=pages + far, size=size)
    assert list(beyond.shown(entries)) == shown[-1]
    assert beyond.described(count, 99).page == pages
