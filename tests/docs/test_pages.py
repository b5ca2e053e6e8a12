"""Screenshots of the pages: shown in the docs, and small."""

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
IMAGES = sorted((DOCS / "images").iterdir())
MOST_BYTES = 150_000


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_screenshot_is_shown_and_small(image):
    assert f"images/{image.name}" in (DOCS / "pages.md").read_text()
    assert image.read_bytes().startswith(b"\x89PNG")
    assert image.stat().st_size < MOST_BYTES


def test_first_screenshot_is_in_the_readme():
    assert "docs/images/overview.png" in (DOCS.parent / "README.md").read_text()
    assert len(IMAGES) == 4
