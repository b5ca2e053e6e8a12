"""Records of the history, packed: 48 bytes each, and the names they mention once per block.

A ring holds blocks of records. A full block keeps its names as a list; without the oldest block, its names are free too.
"""

import math
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

from evaluator.core.policy.durations import Phase
from evaluator.core.policy.strategies import StrategyName
from evaluator.features.history.kinds import HistoryRecord
from plimsoll import rfc3339
from plimsoll.quantity import json_number


class Kind(StrEnum):
    """What the history records by itself. The first four are transitions of a node in a strategy of a policy."""

    CLEARED = "cleared"
    PENDING = "pending"
    CLEARING = "clearing"
    VIOLATED = "violated"
    POLICY = "policy"
    """A policy was created, edited or deleted."""
    REFUSED = "refused"
    """A pod was refused on nodes, as kube-scheduler asked."""
    PLACED = "placed"
    """A pod with a policy was bound to a node."""


TRANSITIONS = (Kind.CLEARED, Kind.PENDING, Kind.CLEARING, Kind.VIOLATED)
"""By `Phase`."""
STRATEGIES = tuple(StrategyName)


def kinds_with(actions: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds of all records, by number: those of the history, and those of actions before what pods got."""
    return (*TRANSITIONS, Kind.POLICY, *actions, Kind.REFUSED, Kind.PLACED)


class Why(IntEnum):
    """Why a node's phase changed."""

    READING = 0
    MISSING = 1
    """The rule's reading is missing, and `whenMissing` is violate."""
    RECORDED = 2
    """A label or condition on the node said so, from before this process started."""
    FIRST = 3
    """It was so in the first decision about the node: it may have begun earlier."""
    NODE_GONE = 4
    EDITED = 5
    """The policy was edited."""
    POLICY_GONE = 6


class Cause(NamedTuple):
    """A rule: its metric, the limit, and its text; `comes_from`: what the reading comes from, such as a device."""

    metric: str
    limit: float
    text: str
    comes_from: str = ""


Symbol = str | Cause
"""What records mention by number."""


class PackedRecord(NamedTuple):
    """One record as it is stored; the annotations are the types of the array's fields."""

    number: Annotated[int, "u8"]
    """In the order of all records."""
    at: Annotated[float, "f8"]
    """Unix seconds."""
    reading: Annotated[float, "f8"] = math.nan
    policy: Annotated[int, "u4"] = 0
    """The number of a symbol, 0 for none; so are the next three."""
    node: Annotated[int, "u4"] = 0
    pod: Annotated[int, "u4"] = 0
    text: Annotated[int, "u4"] = 0
    kind: Annotated[int, "u1"] = 0
    was: Annotated[int, "u1"] = 0
    why: Annotated[int, "u1"] = 0
    strategy: Annotated[int, "u1"] = 0
    observed: Annotated[bool, "?"] = False
    restored: Annotated[bool, "?"] = False


RECORD = np.dtype(
    [
        (name, hint.__metadata__[0])
        for name, hint in get_type_hints(PackedRecord, include_extras=True).items()
    ],
    align=True,
)
Records = npt.NDArray[Any]
"""Shape (records,), of RECORD."""

_LARGEST = 16_384
"""Records of a block."""
_SMALLEST = 64
_SYMBOL = 16
"""Bytes of a list's entry, and of a tuple's, for each symbol."""
_ENTRY = 110
"""Bytes of a dictionary's entry, while a block is open."""


class Block:
    """Records in order, the names of their kinds, and their symbols. `add` until it is full."""

    def __init__(self, size: int, kinds: Sequence[str]) -> None:
        self.kinds = kinds
        self._records = np.zeros(size, RECORD)
        self._count = 0
        self.symbols: list[Symbol] = [""]
        self._numbers: dict[Symbol, int] = {"": 0}
        self._size = self._records.nbytes

    @property
    def records(self) -> Records:
        """The records so far."""
        return self._records[: self._count]

    @property
    def left(self) -> int:
        """How many more records there is room for."""
        return len(self._records) - self._count

    @property
    def size(self) -> int:
        """Bytes, counting each symbol as if only this block had it."""
        return self._size + len(self._numbers) * _ENTRY

    def symbol(self, symbol: Symbol) -> int:
        """Return the number of a symbol, which is added if it is new."""
        number = self._numbers.get(symbol)
        if number is None:
            number = self._numbers[symbol] = len(self.symbols)
            self.symbols.append(symbol)
            self._size += _SYMBOL + sys.getsizeof(symbol)
            if isinstance(symbol, Cause):
                self._size += sys.getsizeof(symbol.text) + sys.getsizeof(symbol.comes_from)
        return number

    def find(self, symbol: Symbol) -> int | None:
        """Return the number of a symbol; None if no record mentions it."""
        if self._numbers:
            return self._numbers.get(symbol)
        try:
            return self.symbols.index(symbol)
        except ValueError:
            return None

    def add(self, record: PackedRecord) -> None:
        """Add a record; there must be room."""
        self._records[self._count] = record
        self._count += 1

    def seal(self) -> None:
        """Free what only adding needs."""
        self._numbers = {}


class Ring:
    """Blocks of records within `size` bytes: the oldest block is dropped for a new one."""

    def __init__(self, size: int, kinds: Sequence[str]) -> None:
        self.limit = size
        self._kinds = kinds
        self._block = min(_LARGEST, max(_SMALLEST, size // 8 // RECORD.itemsize))
        self._blocks: deque[Block] = deque([Block(self._block, kinds)])
        self._sealed = 0
        """Bytes of the blocks that are full."""
        self.dropped = 0
        """Records that were dropped, of any age."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self._sealed + self._blocks[-1].size

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(len(block.records) for block in self._blocks)

    @property
    def oldest(self) -> float:
        """When the oldest record was made (Unix seconds); infinity without one."""
        return next((float(b.records["at"][0]) for b in self._blocks if len(b.records)), np.inf)

    def open_block(self) -> Block:
        """Return the block to add to, which has room for a record or more."""
        block = self._blocks[-1]
        full = not block.left or block.size > max(self.limit // 4, 2 * block.records.nbytes)
        if full and len(block.records):
            block.seal()
            self._sealed += block.size
            self._blocks.append(Block(self._block, self._kinds))
        while self.size > self.limit and len(self._blocks) > 1:
            self._drop()
        return self._blocks[-1]

    def forget(self, before: float) -> None:
        """Drop the blocks whose records are all older than a time (Unix seconds)."""
        while len(self._blocks) > 1 and self._blocks[0].records["at"][-1] < before:
            self._drop()

    def _drop(self) -> None:
        block = self._blocks.popleft()
        self._sealed -= block.size
        self.dropped += len(block.records)

    def newest_first(self) -> Iterator[Block]:
        """Yield the blocks, the newest first. Records added meanwhile are left out."""
        return iter(tuple(reversed(self._blocks)))


def as_json(record: Mapping[str, Any], block: Block) -> dict[str, Any]:
    """Return a record of a block as a JSON object, without the fields that it does not have; `at` is Unix seconds."""
    symbols = block.symbols
    kind, text = block.kinds[int(record["kind"])], symbols[int(record["text"])]
    found: dict[str, Any] = {
        "number": int(record["number"]),
        "at": round(float(record["at"]), 3),
        "kind": str(kind),
    }
    for field in ("policy", "node", "pod"):
        if number := int(record[field]):
            found[field] = symbols[number]
    if found.get("policy"):
        found["mode"] = "observe" if record["observed"] else "enforce"
    if kind in TRANSITIONS:
        found["strategy"] = STRATEGIES[int(record["strategy"])].value
        found["was"] = Phase(int(record["was"])).word
        found["why"] = Why(int(record["why"])).name.lower().replace("_", " ")
    if isinstance(text, Cause):
        reading = float(record["reading"])
        found |= {"rule": text.text, "metric": text.metric, "limit": text.limit}
        found["reading"] = json_number(reading)
        found |= {"cause": text.comes_from} if text.comes_from else {}
    elif text:
        found["text"] = text
    if record["restored"]:
        found["restored"] = True
    return found


def written(fields: Mapping[str, Any]) -> HistoryRecord:
    """Return a record with its time as RFC 3339."""
    return HistoryRecord(**{**fields, "at": rfc3339.millis(fields["at"])})
