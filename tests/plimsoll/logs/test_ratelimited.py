"""The rate-limited log bounds the number of lines and counts those that it drops."""

from plimsoll.logs.ratelimited import RateLimitedLogger


def recorder():
    lines = []

    def write(event, **fields):
        lines.append((event, fields))

    return lines, write


def test_dropped_lines_are_counted_in_the_next_line():
    now = [0.0]
    lines, write = recorder()
    limited = RateLimitedLogger(write, rate=1.0, burst=3, clock=lambda: now[0])
    for number in range(10):
        limited.log("rejected", number=number)
    assert [fields for _, fields in lines] == [{"number": 0}, {"number": 1}, {"number": 2}]
    now[0] = 1.5
    limited.log("rejected", number=10)
    assert lines[-1] == ("rejected", {"number": 10, "not_logged_before": 7})
    now[0] = 3.0
    limited.log("rejected", number=11)
    assert lines[-1] == ("rejected", {"number": 11})


def test_lines_over_the_limit_go_to_overflow():
    lines, write = recorder()
    more, overflow = recorder()
    limited = RateLimitedLogger(write, overflow=overflow, rate=1.0, burst=1, clock=lambda: 0.0)
    limited.log("rejected", number=0)
    limited.log("rejected", number=1)
    assert lines == [("rejected", {"number": 0})]
    assert more == [("rejected", {"number": 1})]
