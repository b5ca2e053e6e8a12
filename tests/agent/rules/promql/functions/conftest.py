"""Sample windows, written as values at a constant interval."""

from collections.abc import Callable, Sequence
from itertools import groupby

import pytest

from agent.rules.promql.values import Window


@pytest.fixture(scope="session")
def window() -> Callable[..., Window]:
    """A window of values; None is a missing sample. Times are in seconds."""

    def build(values: Sequence[float | None], *, every: float = 15, begin: float = 0) -> Window:
        samples = [
            (round((begin + every * index) * 1000), value)
            for index, value in enumerate(values)
            if value is not None
        ]
        runs = [
            (next(run)[1], 1 + sum(1 for _ in run))
            for _, run in groupby(samples, key=lambda sample: repr(sample[1]))
        ]
        return Window(
            [time for time, _ in samples],
            [level for level, _ in runs],
            [repeat for _, repeat in runs],
        )

    return build
