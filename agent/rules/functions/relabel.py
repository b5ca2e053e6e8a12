"""Labels made of other labels: label_replace and label_join."""

import re
from collections.abc import Sequence
from functools import lru_cache

from agent.rules.functions.distinct import distinct
from agent.rules.functions.templates import Template, parse_template
from agent.rules.labels import Labels, replace, value
from agent.rules.values import EvaluationError, Vector

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_KEPT = 1 << 12  # rewritten label sets that are remembered


def label_replace(vector: Vector, dst: str, replacement: str, src: str, pattern: str) -> Vector:
    """With the label `dst` set to `replacement` wherever the label `src` matches `pattern` as a whole.

    `$1`, `${1}` and `${name}` in the replacement stand for what a group matched; an empty label is taken away. EvaluationError of
    a pattern or label name that is none, whatever the vector, and where two series become one.
    """
    _check(dst, "label_replace(): destination")
    compiled, template = _compiled(pattern), parse_template(replacement)
    return distinct(
        [(_replaced(labels, dst, template, src, compiled), found) for labels, found in vector]
    )


def label_join(vector: Vector, dst: str, separator: str, sources: Sequence[str]) -> Vector:
    """With the label `dst` set to the values of other labels, the separator between them; an empty label is taken away.

    EvaluationError of a label name that is none, whatever the vector, and where two series become one.
    """
    for source in sources:
        _check(source, "label_join(): source")
    _check(dst, "label_join(): destination")
    joined = tuple(sources)
    return distinct([(_joined(labels, dst, separator, joined), found) for labels, found in vector])


@lru_cache(_KEPT)
def _replaced(
    labels: Labels, dst: str, template: Template, src: str, pattern: re.Pattern[str]
) -> Labels:
    match = pattern.fullmatch(value(labels, src))
    return labels if match is None else replace(labels, {dst: template.expand(match)})


@lru_cache(_KEPT)
def _joined(labels: Labels, dst: str, separator: str, sources: tuple[str, ...]) -> Labels:
    return replace(labels, {dst: separator.join(value(labels, source) for source in sources)})


@lru_cache(_KEPT)
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
