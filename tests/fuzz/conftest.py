"""The corpus of each target: valid inputs, and inputs that once failed."""

from pathlib import Path

import pytest

CORPUS = Path(__file__).parent / "corpus"


def _kept(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest.fixture(scope="session")
def corpus():
    """The corpus of a target."""
    return _kept
