"""Prints a demo on a terminal: each action, the expected effect, and after how long it was observed."""

import asyncio
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from typing import TextIO, TypeVar

T = TypeVar("T")

_WIDTH = 80
"""Columns of a terminal that is not widened."""
_OBSERVED = _WIDTH - len("   ✓ ") - len(" 123456 ms")
"""Columns for an observation."""
_INTERVAL = 0.02
"""Seconds between two polls, and the resolution of the printed times."""


class NotSeenError(Exception):
    """An expected effect was not observed in time."""


class Narrator:
    """Prints to a stream, in colour on a terminal."""

    def __init__(self, out: TextIO | None = None, *, patience: float = 30.0) -> None:
        self._out = out or sys.stdout
        self._colour = self._out.isatty()
        self._patience = patience
        self._steps = 0
        self._cause = time.monotonic()
        self.seen = 0
        """The number of observations."""

    def title(self, text: str) -> None:
        """Print the demo's title."""
        self._line(self._styled("1", text))

    def step(self, text: str) -> None:
        """Print the heading of a step."""
        self._steps += 1
        self._line()
        self._line(self._styled("1", f"{self._steps}. {text}"))

    def paragraph(self, text: str) -> None:
        """Print a paragraph."""
        for line in textwrap.wrap(text, _WIDTH - 3):
            self._line(f"   {line}")

    def print_action(self, command: str) -> None:
        """Print the command of the current action; observations are timed from here."""
        self._cause = time.monotonic()
        self.suggest(command)

    def suggest(self, command: str) -> None:
        """Print a command for a closer look, without a prompt, so that it can be pasted."""
        self._line(f"     {self._styled('36', command)}")

    def print_output(self, text: str) -> None:
        """Print an observed text."""
        for line in text.splitlines():
            self._line(f"       {self._styled('2', line)}")

    async def wait_for(self, what: str, look: Callable[[], Awaitable[T | None]]) -> T:
        """Poll until a result is found, and print the time since the last action. Raises NotSeenError on timeout."""
        while (result := await look()) is None:
            if time.monotonic() - self._cause > self._patience:
                self._line(self._styled("31", f"   ✗ {what}: not seen in {self._patience:g} s"))
                raise NotSeenError(what)
            await asyncio.sleep(_INTERVAL)
        took = time.monotonic() - self._cause
        self.seen += 1
        self._print_observation(what, took)
        return result

    def _print_observation(self, what: str, took: float) -> None:
        *above, last = textwrap.wrap(what, _OBSERVED, subsequent_indent="  ")
        mark = f"   {self._styled('32', '✓')} "
        for line in above:
            self._line(f"{mark}{line}")
            mark = "     "
        self._line(f"{mark}{last:<{_OBSERVED}} {took * 1000:6.0f} ms")

    def _line(self, text: str = "") -> None:
        print(text, file=self._out, flush=True)

    def _styled(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour else text
