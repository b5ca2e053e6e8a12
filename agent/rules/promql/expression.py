"""Expressions: PromQL text, compiled once and evaluated many times."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, assert_never

from agent.rules.promql import memo
from agent.rules.promql.compiler import compiled
from agent.rules.promql.errors import ExpressionError, out_of_range
from agent.rules.promql.plan import Instant, Need, Part, Range, Scalar, Scope, Text
from agent.rules.promql.syntax.parser import tree
from agent.rules.promql.values import Moment, Plan, Value

__all__ = ["Expression", "ExpressionError", "Need", "parse"]

Kind = Literal["scalar", "vector", "string"]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    kind: Kind
    needs: tuple[Need, ...]
    """The series it reads: each selector once, with its longest reach."""
    plan: Plan = field(repr=False, compare=False)
    _caches: tuple[Callable[[], None], ...] = field(default=(), repr=False, compare=False)

    def evaluate(self, moment: Moment) -> Value:
        """Return the expression's value at a moment. Raises EvaluationError if it cannot be computed from the samples."""
        return self.plan(moment)

    def forget(self) -> None:
        """Drop the label sets of earlier evaluations."""
        for clear in self._caches:
            clear()


def parse(text: str) -> Expression:
    """Compile a PromQL expression. Raises ExpressionError if it is invalid or not supported."""
    try:
        found = tree(text)
        scope = Scope(found.pattern)
        with memo.created() as caches:
            part = compiled(found.root, scope)
    except OverflowError as error:  # the parser's exception for a duration of more than 10⁹ days
        raise out_of_range() from error
    kind, plan = _result(part)
    return Expression(text, kind, _longest(scope.needs), plan, tuple(caches))


def _result(part: Part) -> tuple[Kind, Plan]:
    match part:
        case Scalar(plan):
            return "scalar", plan
        case Instant(plan):
            return "vector", plan
        case Text(text):
            return "string", lambda _: text
        case Range():
            raise ExpressionError(
                "the result is a range vector; apply a function such as rate() to it", "type"
            )
        case _:
            assert_never(part)


def _longest(needs: list[Need]) -> tuple[Need, ...]:
    reaches: dict[object, Need] = {}
    for need in needs:
        known = reaches.get(need.selector)
        if known is None or known.reach < need.reach:
            reaches[need.selector] = need
    return tuple(reaches.values())
