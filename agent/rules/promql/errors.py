"""Errors for expressions that are rejected."""

from typing import Literal

from plimsoll.text import SentenceError

Reason = Literal["parse", "type", "unsupported"]
"""parse: not PromQL. type: operand types do not fit, such as the rate of a scalar. unsupported: PromQL not evaluated here."""


class ExpressionError(SentenceError):
    """An expression was rejected; `reason` is one word, used as a metric's label."""

    def __init__(self, text: str, reason: Reason) -> None:
        super().__init__(text)
        self.reason: Reason = reason


def unsupported(what: str) -> ExpressionError:
    """Return the error for valid PromQL that is not supported here."""
    return ExpressionError(f"{what} is not supported here", "unsupported")


def out_of_range() -> ExpressionError:
    """Return the error for a duration longer than Prometheus accepts."""
    return ExpressionError("duration out of range", "parse")
