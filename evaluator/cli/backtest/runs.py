"""Parses consecutive lines of one series at once: a fifth of the time of parsing them one by one.

A dump is sorted by series, so thousands of lines begin with the same name and labels. Without these, they are numbers that a
JSON decoder reads. Lines that are anything else are left to the caller.
"""

from typing import TypeAlias

import msgspec
import numpy as np

from evaluator.readings.column import Floats

Pairs: TypeAlias = Floats
"""Values and times, shape (lines, 2)."""

_IN_NUMBERS = b"0123456789+-.eE"
_decoder = msgspec.json.Decoder(list[float])


def find(block: bytes, begin: int, head: bytes) -> tuple[int, int]:
    """Return the end and the number of the lines from `begin` on that begin with `head` and a space; 0 lines if others are
    among them.
    """
    beginning = b"\n" + head + b" "
    last = block.rfind(beginning, begin)
    end = block.index(b"\n", last + 1 if last >= 0 else begin) + 1
    lines = block.count(b"\n", begin, end)
    alone = block.count(beginning, begin, end) == lines - 1
    return end, lines if alone else 0


def numbers(run: bytes, head: bytes, lines: int) -> bytes | None:
    """Return ` value time` of each line; None if a line has anything but two numbers after its head."""
    text = run[len(head) :].replace(b"\n" + head, b"\n")
    return text if text.translate(None, _IN_NUMBERS) == b"  \n" * lines else None


def parse(text: bytes) -> Pairs | None:
    """Return the numbers of lines; None if one is not a number of JSON, such as 01 or 1e999, which float() reads."""
    listed = text[1:-1].replace(b"\n", b"").replace(b" ", b",")
    try:
        found = _decoder.decode(b"[" + listed + b"]")
    except msgspec.DecodeError:
        return None
    return np.array(found).reshape(-1, 2)
