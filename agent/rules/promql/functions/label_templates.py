"""Replacement templates with the syntax of Go's regexp.Expand: `$1`, `$name`, `${name}` for a group, `$$` for a dollar.

Names are matched greedily: `$1x` is the group `1x`. An unknown group expands to nothing; a dollar without a name stays.
"""

from dataclasses import dataclass

from agent.rules.promql.regex import Match
from agent.rules.promql.values import join_value

_MOST_GROUPS = 100_000_000  # group numbers from here on are names

Group = int | str


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
    """Parse a template. Any text is valid: text that is not a reference is literal."""
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
