"""The corpus of each target: valid inputs, and inputs that once failed."""

import pytest

from tests.fuzz.corpora import CORPORA


def _kept(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(CORPORA[name].iterdir())]


@pytest.fixture(scope="session")
def corpus():
    """The corpus of a target."""
    return _kept
