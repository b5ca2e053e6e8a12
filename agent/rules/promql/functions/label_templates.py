"""Replacement texts as Go's regexp.Expand reads them: `$1`, `$name`, `${name}` for a group, `$$` for a dollar.

A name is as long as it can be, so `$1x` is the group `1x`, not the first one with an x behind; a group that is not there is empty,
and a dollar that begins no name stays.
"""

from dataclasses import dataclass

from agent.rules.promql.regex import Match
from agent.rules.promql.values import join_value

_MOST_GROUPS = 100_000_000  # as a number; longer ones are taken for names

Group = int | str


@dataclass(frozen=True, slots=True)
class Template:
    """Texts, and the groups between them: one text more than there are groups."""

    texts: tuple[str, ...]
    groups: tuple[Group, ...]

    def expand(self, match: Match) -> str:
        """The text with what the groups matched; EvaluationError if it is too long for a label value."""
        parts = [self.texts[0]]
        for group, text in zip(self.groups, self.texts[1:], strict=True):
            parts += (_matched(match, group), text)
        return join_value("", parts)


def parse_template(text: str) -> Template:
    """Of any text: what is no reference stands for itself."""
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
    """The name that a text after a dollar begins with, and what follows; None where it begins with none."""
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
