"""Tells a story on a terminal: what is done, what should follow, and whether and how soon it was seen."""

import asyncio
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from typing import TextIO, TypeVar

T = TypeVar("T")

_WIDTH = 100
_INTERVAL = 0.02
"""Seconds between two looks; what is timed is no more exact than that."""


class NotSeenError(Exception):
    """Something that should have happened did not, in the time it was given."""


class Narrator:
    """Writes to a terminal, in colour if it is one."""

    def __init__(self, out: TextIO | None = None, *, patience: float = 30.0) -> None:
        self._out = out or sys.stdout
        self._colour = self._out.isatty()
        self._patience = patience
        self._steps = 0
        self._cause = time.monotonic()
        self.seen = 0
        """How many things were observed."""

    def title(self, text: str) -> None:
        """The story's name."""
        self._line(self._styled("1", text))

    def step(self, text: str) -> None:
        """A chapter."""
        self._steps += 1
        self._line()
        self._line(self._styled("1", f"{self._steps}. {text}"))

    def say(self, text: str) -> None:
        """A paragraph."""
        for line in textwrap.wrap(text, _WIDTH - 3):
            self._line(f"   {line}")

    def does(self, command: str) -> None:
        """What a person would type to do what is done now; reactions are timed from here."""
        self._cause = time.monotonic()
        self.types(command)

    def types(self, command: str) -> None:
        """What a person would type to look closer. Printed without a prompt, so that the line can be pasted as it is."""
        self._line(f"     {self._styled('36', command)}")

    def shows(self, text: str) -> None:
        """Something seen, word by word."""
        for line in text.splitlines():
            self._line(f"       {self._styled('2', line)}")

    async def sees(self, what: str, look: Callable[[], Awaitable[T | None]]) -> T:
        """Look until there is something, and say how long after the last deed. Raises NotSeenError when patience ends."""
        while (found := await look()) is None:
            if time.monotonic() - self._cause > self._patience:
                self._line(self._styled("31", f"   ✗ {what}: not seen in {self._patience:g} s"))
                raise NotSeenError(what)
            await asyncio.sleep(_INTERVAL)
        took = time.monotonic() - self._cause
        self.seen += 1
        self._line(f"   {self._styled('32', '✓')} {what:<84} {took * 1000:6.0f} ms")
        return found

    def _line(self, text: str = "") -> None:
        print(text, file=self._out, flush=True)

    def _styled(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour else text
