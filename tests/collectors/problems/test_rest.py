"""A reader of a log rests as long as its work took."""

from collectors.problems.rest import Rest


def test_rest_is_as_long_as_work_and_short_work_is_added_up() -> None:
    worked, rested = [0.0], []
    rest = Rest(rested.append, worked=lambda: worked[0])
    for seconds in (0.5, 0.02, 0.02, 0.02, 0.0, 3.0):
        with rest.after_work():
            worked[0] += seconds
    assert [round(seconds, 6) for seconds in rested] == [0.5, 0.06, 3.0]
