"""Makes text of others safe to include in messages: one line, printable, bounded.

Messages appear in policy statuses, in replies to agents and schedulers, and on terminals, not only in logs.
"""

import json
import reprlib

LONGEST = 500
"""Maximum characters of a message."""
_SHOWN = 80

_repr = reprlib.Repr()
_repr.maxlevel = 3
_repr.maxstring = _repr.maxother = _repr.maxlong = _SHOWN


class SentenceError(Exception):
    """An error whose text is one printable line of bounded length, whatever it quotes."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text) or "no reason was given")


def one_line(text: str, longest: int = LONGEST) -> str:
    """Return text with single spaces, unprintable characters escaped, shortened with dots."""
    head = text[: 4 * longest]  # text may be megabytes
    line = printable(" ".join(head.split()))
    if len(line) <= longest and len(head) == len(text):
        return line
    return f"{line[: longest - 3]}..."


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun: `1 node`, `2 nodes`. `plural`: if that is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def printable(text: str) -> str:
    """Return text with line ends and terminal control characters escaped, as JSON does."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def shown(value: object) -> str:
    """Return a value for a message, shortened; deep values are cut, not traversed."""
    text = printable(_repr.repr(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
