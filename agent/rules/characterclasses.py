"""RE2's names for characters, classes of them and places, in the words of Python's regular expressions.

RE2's are about ASCII alone where Python's are about Unicode, so they are spelled out.
"""

from collections.abc import Mapping

SHORT: Mapping[str, str] = {
    "d": "0-9",
    "D": r"\x00-/:-\U0010ffff",
    "s": r"\t\n\f\r ",
    "S": r"\x00-\x08\x0b\x0e-\x1f!-\U0010ffff",
    "w": "0-9A-Za-z_",
    "W": r"\x00-/:-@\[-\^`{-\U0010ffff",
}
"""What `\\d` and the like stand for, between brackets; without regard to case the negative ones are others."""

POSIX: Mapping[str, str] = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\x0b\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
"""What `[:alpha:]` and the like stand for, between brackets."""

CONTROL: Mapping[str, str] = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""Characters by the letter behind a backslash."""

ASSERTIONS: Mapping[str, str] = {
    "A": r"(?:\A)",
    "z": r"(?:\Z)",
    "b": r"(?a:\b)",
    "B": r"(?!(?a:\b))",
}
"""Places by the letter behind a backslash, in a group each, as Python repeats no bare place."""
