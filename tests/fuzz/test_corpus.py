"""Each corpus input through its decoder: fixed failures do not return."""

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(path.relative_to(CORPUS) for path in CORPUS.glob("*/*"))


def test_targets_and_corpora_correspond():
    assert {path.parts[0] for path in CASES} == set(TARGETS)


def test_corpus_stays_small():
    assert sum((CORPUS / path).stat().st_size for path in CASES) < 300_000


@pytest.mark.parametrize("path", CASES, ids=str)
def test_saved_input_is_handled(path):
    TARGETS[path.parts[0]]((CORPUS / path).read_bytes())
