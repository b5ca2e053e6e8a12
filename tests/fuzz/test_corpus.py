"""Each corpus input through its decoder: fixed failures do not return."""

import pytest

from tests.fuzz.corpora import CORPORA
from tests.fuzz.targets import TARGETS


def test_targets_and_corpora_correspond():
    assert CORPORA.keys() == TARGETS.keys()


def test_corpus_stays_small():
    files = [file for folder in CORPORA.values() for file in folder.iterdir()]
    assert sum(file.stat().st_size for file in files) < 300_000


@pytest.mark.parametrize("target", TARGETS)
def test_saved_inputs_are_handled(target):
    for file in sorted(CORPORA[target].iterdir()):
        try:
            TARGETS[target](file.read_bytes())
        except Exception as error:
            error.add_note(f"input: {file}")
            raise
