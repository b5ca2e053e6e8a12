"""label_replace and label_join, and the templates of label_replace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.rules.promql.budget import Budget
from agent.rules.promql.labels import Labels, replace, value
from agent.rules.promql.memo import LabelSets, must_be_distinct
from agent.rules.promql.regex import Match, Pattern
from agent.rules.promql.values import join_value

Relabel = Callable[[Labels], Labels]
Group = int | str
_MOST_GROUPS = 100_000_000  # group numbers from here on are names
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


@dataclass(frozen=True, slots=True)
class Template:
    """Literal texts and the groups between them; there is one text more than groups."""

    texts: tuple[str, ...]
    groups: tuple[Group, ...]

    def expand(self, match: Match) -> str:
        """Return the text with the groups replaced. Raises EvaluationError if it is too long for a label value."""
        parts = [self.texts[0]]
        for group, text in zip(self.groups, self.texts[1:], strict=True):
            parts += (_matched(match, group), text)
        return join_value("", parts)


def parse_template(text: str) -> Template:
    """Parse a template with the syntax of Go's regexp.Expand: `$1`, `$name`, `${name}` for a group, `$$` for a dollar.

    Names are matched greedily: `$1x` is the group `1x`. An unknown group expands to nothing; a dollar without a name stays.
    """
    texts, groups = [""], list[Group]()
    while text:
        before, dollar, text = text.partition("$")
        texts[-1] += before
        if not dollar:
            break
        if text.startswith("$"):
            texts[-1] += "$"
            text = text[1:]
        elif reference := _reference(text):
            name, text = reference
            groups.append(_group(name))
            texts.append("")
        else:
            texts[-1] += "$"
    return Template(tuple(texts), tuple(groups))


def _reference(text: str) -> tuple[str, str] | None:
    """Return the name at the start of a text that follows a dollar, and the rest; None if it starts with no name."""
    braced = text.startswith("{")
    start = end = int(braced)
    while end < len(text) and _in_name(text[end]):
        end += 1
    if end == start or (braced and text[end : end + 1] != "}"):
        return None
    return text[start:end], text[end + braced :]


def _in_name(character: str) -> bool:
    return character.isalpha() or character.isdecimal() or character == "_"


def _group(name: str) -> Group:
    plain = name.isascii() and name.isdecimal() and (name[0] != "0" or name == "0")
    return int(name) if plain and len(name) <= len(str(_MOST_GROUPS)) else name


def _matched(match: Match, group: Group) -> str:
    try:
        return match[group] or ""
    except IndexError:
        return ""
