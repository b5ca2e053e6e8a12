"""A clock that a test sets."""


class Clock:
    """Returns `now`, in seconds, which only the test changes."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
