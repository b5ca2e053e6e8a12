"""Families of samples as lines of a recording."""

from collections.abc import Iterable

from collectors.interface.sample import Family
from collectors.shared.formats.numerals import format_float
from plimsoll.recording import text


def lines(families: Iterable[Family], node: str, at: float) -> bytes:
    """Return the samples of one moment (Unix seconds) with the node's name."""
    stamp = text.timestamp(at)
    return "".join(
        f"{text.head(name, node, labels)} {format_float(value)} {stamp}\n"
        for family in families
        for name, labels, value in family.samples
    ).encode()
