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


@pytest.mark.parametrize("target", TARGETS)
def test_saved_inputs_are_handled(target):
    for path in CASES:
        if path.parts[0] == target:
            try:
                TARGETS[target]((CORPUS / path).read_bytes())
            except Exception as error:
                error.add_note(f"input: {path}")
                raise
