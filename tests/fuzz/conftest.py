"""The kept inputs of each target: what each decoder is to read, and what once broke one."""

from pathlib import Path

import pytest

CORPUS = Path(__file__).parent / "corpus"


def _kept(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest.fixture(scope="session")
def corpus():
    """The inputs kept for a target."""
    return _kept
