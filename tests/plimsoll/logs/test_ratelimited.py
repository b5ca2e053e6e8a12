"""A crowd that is turned away does not flood the log, and is counted all the same."""

from plimsoll.logs.ratelimited import RateLimitedLogger


def test_what_is_too_much_is_counted_and_said_with_the_next():
    now, lines = [0.0], []

    def warning(event, **fields):
        lines.append((event, fields))

    log = RateLimitedLogger(warning, rate=1.0, burst=3, clock=lambda: now[0])
    for number in range(10):
        log.warning("turned away", number=number)
    assert [fields for _, fields in lines] == [{"number": 0}, {"number": 1}, {"number": 2}]
    now[0] = 1.5
    log.warning("turned away", number=10)
    assert lines[-1] == ("turned away", {"number": 10, "not_logged_before": 7})
    now[0] = 3.0
    log.warning("turned away", number=11)
    assert lines[-1] == ("turned away", {"number": 11})
