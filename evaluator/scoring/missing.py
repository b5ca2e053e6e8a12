"""What becomes of a node of which a scorer lacks what it needs."""

from enum import StrEnum


class WhenMissing(StrEnum):
    """Words of a flag."""

    IGNORE = "ignore"
    """It passes, and gets the score that its scorer gives to the unknown."""
    REFUSE = "refuse"
    """It is filtered out, with a reason."""


def when_missing(text: str) -> WhenMissing:
    """One of these words. Raises ValueError for another."""
    try:
        return WhenMissing(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of {', '.join(WhenMissing)}") from None
