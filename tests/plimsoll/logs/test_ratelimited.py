"""The rate-limited log bounds the number of lines and counts those that it drops."""

from plimsoll.logs.ratelimited import RateLimitedLogger


class Recorder:
    """A logger that keeps its lines by level."""

    def __init__(self):
        self.warnings = []
        self.debugs = []

    def warning(self, event, **fields):
        self.warnings.append((event, fields))

    def debug(self, event, **fields):
        self.debugs.append((event, fields))


def test_dropped_lines_are_counted_in_the_next_line():
    now = [0.0]
    logger = Recorder()
    lines = logger.warnings
    limited = RateLimitedLogger(logger, rate=1.0, burst=3, clock=lambda: now[0])
    for number in range(10):
        limited.log("rejected", number=number)
    assert [fields for _, fields in lines] == [{"number": 0}, {"number": 1}, {"number": 2}]
    now[0] = 1.5
    limited.log("rejected", number=10)
    assert lines[-1] == ("rejected", {"number": 10, "not_logged_before": 7})
    now[0] = 3.0
    limited.log("rejected", number=11)
    assert lines[-1] == ("rejected", {"number": 11})
    assert logger.debugs == []


def test_lines_over_the_limit_go_to_overflow():
    logger = Recorder()
    limited = RateLimitedLogger(
        logger, "warning", overflow="debug", rate=1.0, burst=1, clock=lambda: 0.0
    )
    limited.log("rejected", number=0)
    limited.log("rejected", number=1)
    assert logger.warnings == [("rejected", {"number": 0})]
    assert logger.debugs == [("rejected", {"number": 1})]


def test_logging_may_be_configured_after_the_limited_log_is_made():
    """structlog binds the configuration when a method of a lazy logger is looked up."""
    logger = Recorder()
    limited = RateLimitedLogger(logger, clock=lambda: 0.0)
    lines = []
    logger.warning = lambda event, **fields: lines.append(event)
    limited.log("rejected")
    assert lines == ["rejected"]
