"""Lines of log files by the `pluginConfig` of a `filelog` monitor: where a line has its time and its message."""

import contextlib
from collections.abc import Mapping
from datetime import datetime

from collectors.shared.problems.gotime import Layout
from collectors.shared.problems.matching import compile_pattern
from plimsoll.re2 import Pattern

LONGEST = 4096
"""Bytes of a line; the rest is dropped."""


class LineFormat:
    """The patterns and the layout of one configuration."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._timestamp = compile_pattern(config["timestamp"])
        self._message = compile_pattern(config["message"])
        self._layout = Layout(config["timestampFormat"])

    def parse(self, text: str, now: datetime) -> tuple[str, float]:
        """Return a line's message and its time in Unix seconds. Raises ValueError, with the reason, for a line that does not fit."""
        stamp, message = _last_group(self._timestamp, text), _last_group(self._message, text)
        if stamp is None or message is None:
            name = "timestamp" if stamp is None else "message"
            raise ValueError(f"pluginConfig.{name} does not match")
        return message, self._layout.parse(stamp, now)


def decoded(line: bytes) -> str:
    """Return the text of a line as it is matched."""
    return line[:LONGEST].decode("utf-8", "replace")


def _last_group(pattern: Pattern, text: str) -> str | None:
    """Return the last group of a pattern, or its whole match."""
    if (match := pattern.search(text)) is None:
        return None
    number = 0
    with contextlib.suppress(IndexError):
        while True:
            match[number + 1]
            number += 1
    return match[number]
