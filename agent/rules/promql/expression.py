"""Expressions: PromQL text, compiled once and evaluated many times: each node becomes a closure over its operands' closures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

import promql_parser

from agent.rules.promql import calls, memo, selectors
from agent.rules.promql.budget import SERIES
from agent.rules.promql.errors import ExpressionError, out_of_range, unsupported
from agent.rules.promql.operators import aggregations, binary
from agent.rules.promql.operators.aggregations import Grouping
from agent.rules.promql.operators.vector_matching import Card, Matching
from agent.rules.promql.plan import Instant, Need, Part, Range, Scalar, Scope, Span, Text
from agent.rules.promql.syntax.parser import label_names, milliseconds, selection, tree
from agent.rules.promql.values import Moment, Plan, Value, Vector

__all__ = ["Expression", "ExpressionError", "Need", "parse"]

Kind = Literal["scalar", "vector", "string"]
DEEPEST = 100
"""Maximum nesting of an expression. Each level takes up to three of Python's stack frames, of which there are 1,000."""
_CARDS: Mapping[str, Card] = {
    "VectorMatchCardinality.OneToOne": "one-to-one",
    "VectorMatchCardinality.ManyToOne": "many-to-one",
    "VectorMatchCardinality.OneToMany": "one-to-many",
    "VectorMatchCardinality.ManyToMany": "one-to-one",  # set operators, which ignore it
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    kind: Kind
    needs: tuple[Need, ...]
    """The series it reads: each selector once, with its longest reach."""
    spans: tuple[Span, ...]
    """Its ranges."""
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
    return Expression(text, kind, _longest(scope.needs), tuple(scope.spans), plan, tuple(caches))


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


def compiled(node: promql_parser.Expr, scope: Scope) -> Part:
    """Return the compiled part for a node and add the series it needs to the scope.

    Raises ExpressionError, naming the construct, if it is not supported.
    """
    if scope.depth > DEEPEST:
        raise ExpressionError(f"the expression has more than {DEEPEST} levels", "parse")
    build = _NODES.get(type(node))
    if build is None:
        raise unsupported(type(node).__name__)
    part = build(node, scope)
    return replace(part, plan=_metered(part.plan)) if isinstance(part, Instant) else part


def _metered(plan: Callable[[Moment], Vector]) -> Callable[[Moment], Vector]:
    """Return a plan whose results count against the evaluation's budget."""

    def metered(moment: Moment) -> Vector:
        vector = plan(moment)
        moment.budget.take(SERIES * len(vector))
        return vector

    return metered


def _number(node: promql_parser.NumberLiteral, _: Scope) -> Scalar:
    number = node.val
    return Scalar(lambda _: number)


def _text(node: promql_parser.StringLiteral, _: Scope) -> Text:
    return Text(node.val)


def _parentheses(node: promql_parser.ParenExpr, scope: Scope) -> Part:
    return compiled(node.expr, scope.deeper())


def _minus(node: promql_parser.UnaryExpr, scope: Scope) -> Part:
    operand = compiled(node.expr, scope.deeper())
    if isinstance(operand, Scalar):
        number = operand.plan
        return Scalar(lambda moment: -number(moment))
    return calls.negated(_instant(operand))


def _selector(node: promql_parser.VectorSelector, scope: Scope) -> Instant:
    return selectors.instant_vector(selection(node, scope.pattern), scope)


def _range(node: promql_parser.MatrixSelector, scope: Scope) -> Range:
    return selectors.range_vector(
        selection(node.vector_selector, scope.pattern), milliseconds(node.range), scope
    )


def _subquery(node: promql_parser.SubqueryExpr, scope: Scope) -> Range:
    length, back = milliseconds(node.range), milliseconds(node.offset)
    step = milliseconds(node.step)
    inner = selectors.inside(scope, length, step, back)
    return selectors.subquery(_instant(compiled(node.expr, inner)), length, step, back)


def _call(node: promql_parser.Call, scope: Scope) -> Part:
    name = node.func.name
    if name not in calls.SUPPORTED:  # before any error about its arguments
        raise unsupported(f"the function {name}()")
    return calls.call(name, [compiled(argument, scope.deeper()) for argument in node.args])


def _aggregation(node: promql_parser.AggregateExpr, scope: Scope) -> Instant:
    name = str(node.op)
    if name not in aggregations.SUPPORTED:
        raise unsupported(f"the aggregation {name}()")
    operand = _instant(compiled(node.expr, scope.deeper()))
    grouping = _grouping(node.modifier)
    aggregate, vector = aggregations.aggregator(name, grouping), operand.plan
    parameter = None if node.param is None else compiled(node.param, scope.deeper())
    match parameter:
        case None:
            return Instant(lambda moment: aggregate(vector(moment), None))
        case Text(text):
            label_names([text])
            return Instant(lambda moment: aggregate(vector(moment), text))
        case Scalar(number):
            return Instant(lambda moment: aggregate(vector(moment), number(moment)))
        case _:
            raise ExpressionError(f"the parameter of {name}() must be a scalar or a string", "type")


def _grouping(modifier: promql_parser.AggModifier | None) -> Grouping:
    if modifier is None:
        return Grouping()
    by = modifier.type == promql_parser.AggModifierType.By
    return Grouping(by, frozenset(label_names(modifier.labels)))


def _binary(node: promql_parser.BinaryExpr, scope: Scope) -> Part:
    op, modifier = str(node.op), node.modifier
    if op not in binary.SUPPORTED:
        raise unsupported(f"the operator {op}")
    left, right = compiled(node.lhs, scope.deeper()), compiled(node.rhs, scope.deeper())
    return_bool = modifier is not None and modifier.return_bool
    match left, right:
        case Scalar(), Scalar():
            return _of_scalars(op, left, right)
        case Scalar(), Instant():
            return _with_scalar(op, right, left, first=True, return_bool=return_bool)
        case Instant(), Scalar():
            return _with_scalar(op, left, right, first=False, return_bool=return_bool)
        case Instant(), Instant():
            return _of_vectors(op, left, right, _matching(modifier), return_bool)
        case _:
            raise ExpressionError(f"{op} takes scalars and instant vectors only", "type")


def _of_scalars(op: str, left: Scalar, right: Scalar) -> Scalar:
    apply, left_plan, right_plan = binary.scalars(op), left.plan, right.plan
    return Scalar(lambda moment: apply(left_plan(moment), right_plan(moment)))


def _with_scalar(
    op: str, operand: Instant, scalar: Scalar, *, first: bool, return_bool: bool
) -> Instant:
    apply = binary.vector_with_scalar(op, first, return_bool)
    vector, number = operand.plan, scalar.plan
    return Instant(lambda moment: apply(vector(moment), number(moment)))


def _of_vectors(
    op: str, left: Instant, right: Instant, matching: Matching, return_bool: bool
) -> Instant:
    apply, left_plan, right_plan = binary.vectors(op, matching, return_bool), left.plan, right.plan

    def plan(moment: Moment) -> Vector:
        return apply(left_plan(moment), right_plan(moment))

    return Instant(plan)


def _matching(modifier: promql_parser.BinModifier | None) -> Matching:
    if modifier is None:
        return Matching()
    fill = modifier.fill_values
    if fill.lhs is not None or fill.rhs is not None:
        raise unsupported("the fill modifier")
    matching, include = modifier.matching, tuple(label_names(modifier.group_labels or []))
    if matching is None:
        return Matching(card=_CARDS[str(modifier.card)], include=include)
    on = matching.type == promql_parser.LabelModifierType.Include
    names = frozenset(label_names(matching.labels))
    return Matching(on, names, _CARDS[str(modifier.card)], include)


def _instant(part: Part) -> Instant:
    if isinstance(part, Instant):
        return part
    raise ExpressionError("expected an instant vector", "type")


_NODES: Mapping[type[promql_parser.Expr], Callable[[Any, Scope], Part]] = {
    promql_parser.AggregateExpr: _aggregation,
    promql_parser.BinaryExpr: _binary,
    promql_parser.Call: _call,
    promql_parser.MatrixSelector: _range,
    promql_parser.NumberLiteral: _number,
    promql_parser.ParenExpr: _parentheses,
    promql_parser.StringLiteral: _text,
    promql_parser.SubqueryExpr: _subquery,
    promql_parser.UnaryExpr: _minus,
    promql_parser.VectorSelector: _selector,
}
