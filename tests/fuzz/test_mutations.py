"""Each decoder on random bytes and on mutated valid inputs."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import mutate
from tests.fuzz.targets import TARGETS

SMALL, FULL = 20, 20_000


@pytest.fixture
def effort(soak):
    """Number of examples: few in each run of the tests."""
    return settings(max_examples=FULL if soak else SMALL, deadline=None)


@pytest.mark.parametrize("name", TARGETS)
def test_only_documented_exceptions_are_raised(name, corpus, effort):
    seeds, run = corpus(name), TARGETS[name]

    @effort
    @given(seed=st.sampled_from(seeds), chance=st.integers(0, 2**64), bare=st.binary(max_size=80))
    def check(seed, chance, bare):
        run(mutate(seed, random.Random(chance)))
        run(bare)

    check()
