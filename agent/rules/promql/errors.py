"""Why an expression is not taken."""

from typing import Literal

from plimsoll.text import SentenceError

Reason = Literal["parse", "type", "unsupported"]
"""Not PromQL; PromQL that computes nothing, such as the rate of a scalar; PromQL that a node does not compute."""


class ExpressionError(SentenceError):
    """An expression that is not taken, with the reason as one word for metrics."""

    def __init__(self, text: str, reason: Reason) -> None:
        super().__init__(text)
        self.reason: Reason = reason


def unsupported(what: str) -> ExpressionError:
    """PromQL, but not a node's."""
    return ExpressionError(f"{what} is not supported here", "unsupported")


def out_of_range() -> ExpressionError:
    """A duration that is longer than any that Prometheus takes."""
    return ExpressionError("duration out of range", "parse")
