"""label_replace and label_join."""

from collections.abc import Callable, Sequence

from agent.rules.promql.budget import Budget
from agent.rules.promql.functions.label_templates import parse_template
from agent.rules.promql.labels import Labels, replace, value
from agent.rules.promql.memo import LabelSets, must_be_distinct
from agent.rules.promql.regex import Pattern
from agent.rules.promql.values import join_value

Relabel = Callable[[Labels], Labels]
_SET = 150  # bytes of a label set besides its longest text; the other texts are shared with the original label set


def replacing(dst: str, replacement: str, src: str, pattern: Pattern) -> Relabel:
    """Return label_replace: set the label `dst` to `replacement` if the whole value of `src` matches `pattern`.

    `$1`, `${1}` and `${name}` expand to groups; an empty result removes the label. The returned function raises EvaluationError
    if the label would be too long.
    """
    template = parse_template(replacement)

    def relabel(labels: Labels) -> Labels:
        match = pattern.fullmatch(value(labels, src))
        return labels if match is None else replace(labels, {dst: template.expand(match)})

    return relabel


def joining(dst: str, separator: str, sources: Sequence[str]) -> Relabel:
    """Return label_join: set the label `dst` to the values of other labels joined by the separator; an empty result removes it.

    The returned function raises EvaluationError if the label would be too long.
    """

    def relabel(labels: Labels) -> Labels:
        return replace(
            labels, {dst: join_value(separator, [value(labels, source) for source in sources])}
        )

    return relabel


class Relabelling:
    """One label_replace or label_join call. New label sets are computed only if the series changed since the last evaluation."""

    def __init__(self, relabel: Relabel) -> None:
        self._relabel = relabel
        self._known: tuple[LabelSets, LabelSets, int] = (), (), 0

    def __call__(self, sets: LabelSets, budget: Budget) -> LabelSets:
        """Return the new label sets in the same order.

        Raises EvaluationError if two series get the same labels or a label is too long; LimitError if memory or time runs out.
        """
        known, results, size = self._known
        if known == sets:
            budget.take(size)
            return results
        before = budget.used
        relabelled = []
        for labels in sets:
            relabelled.append(self._relabel(labels))
            budget.take(_size(relabelled[-1]) if relabelled[-1] is not labels else 0)
        results = tuple(relabelled)
        must_be_distinct(results)
        self._known = sets, results, budget.used - before
        return results


def _size(labels: Labels) -> int:
    return _SET + max((len(text) for _, text in labels), default=0)
