"""The documentation stays short: at most 30,000 words of prose, without code and generated pages."""

import re
from pathlib import Path

import pytest

from docs import generate, site_pages

ROOT = Path(__file__).parents[2]
MOST = 30_000


def words(text):
    text = re.sub(r"```.*?```|<!--.*?-->|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL)
    return len(re.findall(r"[A-Za-z][\w'-]*", text))


@pytest.fixture(scope="module")
def pages():
    generated = {path for path, text in generate.pages() if text.startswith(generate.NOTE)}
    return [path for path in (ROOT / "docs").glob("*.md") if path not in generated]


def test_prose_has_at_most_30000_words(pages):
    assert sum(words(path.read_text()) for path in pages) <= MOST


def test_a_page_says_first_for_whom_it_is():
    others = site_pages.outside() - {"README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md"}
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in others)]
    first = {
        path: re.sub("<!--.*?-->", "", path.read_text()).strip().split("\n\n") for path in pages
    }
    assert {path: text[:2] for path, text in first.items() if not (text[0].startswith("# ") and text[1].startswith("For "))} == {}  # fmt: skip
