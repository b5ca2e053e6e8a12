"""Each kept input through the decoder it is for: none may do again what once was put right."""

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(path.relative_to(CORPUS) for path in CORPUS.glob("*/*"))


def test_every_target_has_a_corpus_and_every_corpus_a_target():
    assert {path.parts[0] for path in CASES} == set(TARGETS)


def test_it_stays_small():
    assert sum((CORPUS / path).stat().st_size for path in CASES) < 300_000


@pytest.mark.parametrize("path", CASES, ids=str)
def test_a_kept_input(path):
    TARGETS[path.parts[0]]((CORPUS / path).read_bytes())
