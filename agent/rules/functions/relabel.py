"""Labels made of other labels: label_replace and label_join.

Both are made ready once for their arguments, and work out new label sets only when other series come than before.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from agent.rules.functions.templates import parse_template
from agent.rules.labels import Labels, replace, value
from agent.rules.shapes import LabelSets, columns, latest, must_be_distinct
from agent.rules.values import EvaluationError, Vector

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
LONGEST = 4096
"""Characters of a label's value; joined with itself over and over, one would fill the memory."""
_KEPT = 1 << 8  # calls in different words that are kept ready

Relabelling = Callable[[LabelSets], LabelSets]


def label_replace(vector: Vector, dst: str, replacement: str, src: str, pattern: str) -> Vector:
    """With the label `dst` set to `replacement` wherever the label `src` matches `pattern` (in Python's words) as a whole.

    `$1`, `${1}` and `${name}` in the replacement stand for what a group matched; an empty label is taken away. EvaluationError of
    a pattern or label name that is none, whatever the vector, and where two series become one.
    """
    return _applied(_replacing(dst, replacement, src, pattern), vector)


def label_join(vector: Vector, dst: str, separator: str, sources: Sequence[str]) -> Vector:
    """With the label `dst` set to the values of other labels, the separator between them; an empty label is taken away.

    EvaluationError of a label name that is none, whatever the vector, and where two series become one.
    """
    return _applied(_joining(dst, separator, tuple(sources)), vector)


def _applied(relabelling: Relabelling, vector: Vector) -> Vector:
    sets, values = columns(vector)
    return list(zip(relabelling(sets), values, strict=True))


@lru_cache(_KEPT)
def _replacing(dst: str, replacement: str, src: str, pattern: str) -> Relabelling:
    compiled = _compiled(pattern)
    _check(dst, "label_replace(): destination")
    template = parse_template(replacement)

    def one(labels: Labels) -> Labels:
        match = compiled.fullmatch(value(labels, src))
        return labels if match is None else replace(labels, {dst: template.expand(match)})

    return _of_each(one)


@lru_cache(_KEPT)
def _joining(dst: str, separator: str, sources: tuple[str, ...]) -> Relabelling:
    for source in sources:
        _check(source, "label_join(): source")
    _check(dst, "label_join(): destination")

    def one(labels: Labels) -> Labels:
        return replace(labels, {dst: separator.join(value(labels, source) for source in sources)})

    return _of_each(one)


def _of_each(relabel: Callable[[Labels], Labels]) -> Relabelling:
    @latest
    def relabelled(sets: LabelSets) -> LabelSets:
        results = tuple(map(relabel, sets))
        must_be_distinct(results)
        if any(len(text) > LONGEST for labels in results for _, text in labels):
            raise EvaluationError(f"a label of more than {LONGEST} characters")
        return results

    return relabelled


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise EvaluationError(
            f"invalid regular expression in label_replace(): {pattern!r}: {error}"
        ) from error


def _check(name: str, role: str) -> None:
    if _LABEL.fullmatch(name) is None:
        raise EvaluationError(f"{role} label name is none: {name!r}")
