"""Tables and colours for a terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plimsoll.text import printable

_GAP = "   "


@dataclass(frozen=True, slots=True)
class Style:
    """Colours, or none."""

    coloured: bool = False

    def bad(self, text: str) -> str:
        """Return text in red."""
        return self._in(31, text)

    def good(self, text: str) -> str:
        """Return text in green."""
        return self._in(32, text)

    def doubtful(self, text: str) -> str:
        """Return text in yellow."""
        return self._in(33, text)

    def _in(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.coloured and text else text


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with a colour: `bad`, `good`, `doubtful`, or none."""

    text: str
    colour: str = ""


def table(head: Sequence[str], rows: Iterable[Sequence[str | Cell]], style: Style) -> list[str]:
    """Return the lines of a table as kubectl prints it; an empty cell is shown as `-`."""
    cells = [[_cell(content) for content in row] for row in rows]
    texts = [list(head), *([cell.text for cell in row] for row in cells)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    plain = [Cell(name) for name in head]
    return [_line(row, widths, style) for row in [plain, *cells]]


def _cell(content: str | Cell) -> Cell:
    cell = content if isinstance(content, Cell) else Cell(content)
    return Cell(printable(cell.text) or "-", cell.colour)


def _line(row: Sequence[Cell], widths: Sequence[int], style: Style) -> str:
    parts = []
    for cell, width in zip(row, widths, strict=True):
        pad = " " * (width - len(cell.text))
        text = getattr(style, cell.colour)(cell.text) if cell.colour else cell.text
        parts.append(f"{text}{pad}")
    return _GAP.join(parts).rstrip()
