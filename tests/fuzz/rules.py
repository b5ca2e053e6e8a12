"""Random input of rule authors: expressions and regular expressions."""

from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.expression import parse
from agent.rules.promql.labels import of_series
from agent.rules.promql.regex import compiled
from agent.rules.promql.values import EvaluationError, Moment
from agent.rules.storage.exposition import MemoryStorage
from tests.fuzz.properties import at_most, documented

MOMENT = Moment(
    MemoryStorage(
        {
            of_series(name, (("cpu", cpu), ("le", cpu))): [
                (60_000 * at, at * rise) for at in range(9)
            ]
            for name, rise in (("a", 1.5), ("b", -2.0))
            for cpu in ("0", "1", "+Inf")
        }
    ),
    time=500_000,
    epoch=1_763_640_000_000,
)
SECONDS = 5
"""Processor seconds; the most expensive accepted rule evaluates something 11,000 times."""


def an_expression(data):
    with at_most(seconds=SECONDS), documented(ExpressionError):
        expression = parse(data.decode("utf-8", "surrogateescape"))
        assert all(need.reach >= 0 for need in expression.needs)
        with documented(EvaluationError):
            _is_as_said(expression.kind, expression.evaluate(MOMENT))


def _is_as_said(kind, value):
    kinds = {"scalar": float, "string": str, "vector": list}
    assert isinstance(value, kinds[kind]), (kind, value)
    if kind == "vector":
        assert all(isinstance(number, float) for _, number in value)
        assert len({labels for labels, _ in value}) == len(value)
        assert all(text for labels, _ in value for pair in labels for text in pair)


def a_pattern(data):
    with at_most(seconds=SECONDS), documented(ExpressionError):
        compiled(data.decode("utf-8", "surrogateescape")).fullmatch("eth0.100")
