"""The documentation stays short: at most 30,000 words of prose, without code and generated pages."""

import re
from pathlib import Path

from docs import generate

ROOT = Path(__file__).parents[2]
MOST = 30_000


def words(text):
    text = re.sub(r"```.*?```|<!--.*?-->|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL)
    return len(re.findall(r"[A-Za-z][\w'-]*", text))


def test_prose_has_at_most_30000_words():
    generated = {path for path, text in generate.pages() if text.startswith(generate.NOTE)}
    pages = [path for path in (ROOT / "docs").glob("*.md") if path not in generated]
    assert sum(words(path.read_text()) for path in pages) <= MOST
