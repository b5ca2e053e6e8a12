"""Warnings that a crowd cannot make endless: some are written, all are counted."""

from evaluator.sources.loudness import Loudness


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_crowd_is_told_of_some_and_counted():
    clock, told = Clock(), []
    loudness = Loudness(lambda event, **fields: told.append((event, fields)), clock=clock)
    for number in range(10_000):
        loudness.warning("turned away", node=f"n{number}")
    assert told == [("turned away", {"node": f"n{number}"}) for number in range(50)]
    told.clear()
    clock.now += 1.0
    for _ in range(3):
        loudness.warning("turned away")
    assert told == [("turned away", {"not_logged_before": 9_950}), ("turned away", {})]


def test_who_comes_seldom_is_always_told_of():
    clock, told = Clock(), []
    loudness = Loudness(lambda event, **fields: told.append((event, fields)), clock=clock)
    for _ in range(200):
        loudness.warning("turned away")
        clock.now += 1.0
    assert told == [("turned away", {})] * 200
