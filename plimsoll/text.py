"""Makes text of others safe to include in messages: one line, printable, bounded, without secrets; and suggests similar names.

Messages appear in policy statuses, in replies to agents and schedulers, and on terminals, not only in logs.
"""

import itertools
import json
import reprlib
from collections.abc import Iterable

LONGEST = 500
"""Maximum characters of a message."""
_SHOWN = 80
_HIDDEN = "[hidden]"
_SHORTEST = 4
"""Minimum characters of a secret. Removing shorter ones would garble words and hide nothing."""
_SHARED = 0.4
"""Share of letter pairs that two names must have in common before they are compared letter by letter, which is slow."""
_COMPARED = 8
"""Names that are compared letter by letter."""
SIMILAR = 0.75
"""The usual ratio."""

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


class NearNames:
    """Names to suggest. Comparing one name with a thousand takes about a millisecond."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._pairs = {name: _pairs(name) for name in names}

    def add(self, name: str) -> None:
        """Add a name."""
        self._pairs[name] = _pairs(name)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def find(self, name: str, most: int = 3, least: float = SIMILAR) -> list[str]:
        """Return up to `most` names similar to this one, the most similar first; case is ignored.

        `least`: difflib's ratio from which names count as similar.
        """
        own = _pairs(name)
        shared = sorted(
            (-share, other)
            for other, pairs in self._pairs.items()
            if other != name
            and (share := 2 * len(own & pairs) / (len(own) + len(pairs) or 1)) >= _SHARED
        )
        rated = ((_ratio(name, other), other) for _, other in shared[:_COMPARED])
        near = sorted((-ratio, other) for ratio, other in rated if ratio >= least)
        return [other for _, other in near[:most]]


def sorted_by_nearness(name: str, others: Iterable[str]) -> list[str]:
    """Return names without duplicates, the most similar to `name` first, equal ones as given; case is ignored. For a few names."""
    return sorted(dict.fromkeys(others), key=lambda other: -_ratio(name, other))


def _pairs(name: str) -> frozenset[str]:
    lower = name.lower()
    return frozenset(map("".join, itertools.pairwise(lower)))


def _ratio(a: str, b: str) -> float:
    import difflib  # for few error messages

    return difflib.SequenceMatcher(None, a.lower(), b.lower(), autojunk=False).ratio()


def redacted(text: str, *secrets: str) -> str:
    """Return the text without these secrets; of one like `Bearer abc`, the last word is the secret."""
    for secret in secrets:
        credential = secret.split(" ")[-1]
        if len(credential) >= _SHORTEST:
            text = text.replace(credential, _HIDDEN)
    return text
