"""Texts that others wrote, made fit for a sentence of ours: one line, printable, and no longer than a person reads.

Such sentences end up in a policy's status, in answers to agents and schedulers, and on terminals, not only in logs.
"""

import json
import reprlib

LONGEST = 500
"""Characters of a sentence."""
_SHOWN = 80

_repr = reprlib.Repr()
_repr.maxlevel = 3
_repr.maxstring = _repr.maxother = _repr.maxlong = _SHOWN


class SentenceError(Exception):
    """An error whose text is one line, printable and bounded, whatever it quotes."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text) or "no reason was given")


def one_line(text: str, longest: int = LONGEST) -> str:
    """The text with single spaces, what cannot be printed escaped, and dots in place of what is too much."""
    head = text[: 4 * longest]  # a text may be megabytes
    line = printable(" ".join(head.split()))
    if len(line) <= longest and len(head) == len(text):
        return line
    return f"{line[: longest - 3]}..."


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun: `1 node`, `2 nodes`. `plural`, where that is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def printable(text: str) -> str:
    """The text with what ends a line or drives a terminal escaped, as JSON does it."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def shown(value: object) -> str:
    """A value as its author wrote it, but no longer than a person reads; deep ones are cut short, not walked through."""
    text = printable(_repr.repr(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
