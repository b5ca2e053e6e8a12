"""Timelines: rows of nodes or policies, and the worst phase of each in every part of an interval.

Records are read twice, in steps: to choose the rows that changed most, and to fill them in. No step reads more than a chunk.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.durations import Phase, Phases
from evaluator.core.policy.strategies import COMPLIANCE, StrategyName
from evaluator.features.history.history import History, Query
from evaluator.features.history.kinds import TimelineRow
from evaluator.features.history.records import STRATEGIES, TRANSITIONS, Block, Records
from plimsoll.steps import Steps

COLUMNS = 240
"""Parts of an interval."""
MOST_ROWS = 40
"""Rows drawn, those that changed most first; all others are counted."""
_CHUNK = 1_024
_TRACKS = 64
"""Phases over time that are combined in one step."""
_NONE = 255
_OF_COMPLIANCE = np.array([STRATEGIES.index(name) for name in COMPLIANCE])
_KINDS = frozenset(TRANSITIONS)
_WORDS = tuple(phase.word for phase in Phase)


class Row(NamedTuple):
    """One node or policy: its phase in each part of the interval, and how many transitions it made."""

    name: str
    transitions: int
    phases: Phases

    @property
    def violated_share(self) -> float:
        """The share of the parts in which it was in violation for some time."""
        return float(np.mean(self.phases >= Phase.CLEARING)) if len(self.phases) else 0.0

    def runs(self) -> list[tuple[int, int, str]]:
        """Return the row as runs of [first part, parts, phase], without those that are clear."""
        edges = np.flatnonzero(np.diff(self.phases)) + 1
        bounds = [0, *edges.tolist(), len(self.phases)]
        return [
            (begin, end - begin, _WORDS[self.phases[begin]])
            for begin, end in itertools.pairwise(bounds)
            if end > begin and self.phases[begin]
        ]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows over an interval (Unix seconds). `more`: rows with transitions or violations that are not among them."""

    since: float
    until: float
    rows: Sequence[Row]
    more: int

    def shown_rows(self) -> Steps[list[TimelineRow]]:
        """Return the rows as data."""
        rows = []
        for row in self.rows:
            rows.append(
                TimelineRow(
                    name=row.name,
                    transitions=row.transitions,
                    now=_WORDS[row.phases[-1]],
                    violated_share=round(row.violated_share, 4),
                    runs=row.runs(),
                )
            )
            yield
        return rows


class _Key(NamedTuple):
    """One phase over time: that of a node in a strategy of a policy."""

    policy: str
    node: str
    strategy: StrategyName


def timeline(
    history: History, decisions: Decisions, query: Query, *, by: str, most: int = MOST_ROWS
) -> Steps[Timeline]:
    """Return the rows `by` node, or by policy of one node, of an interval that ends now or earlier.

    Only strategies of compliance count.

    Phases before a row's first record are what the record says it was; without one, what they are now.
    """
    wanted = Query(
        namespace=query.namespace,
        policy=query.policy,
        node=query.node,
        since=query.since,
        kinds=_KINDS,
    )
    shown = Query(**{**_fields(wanted), "until": query.until})
    counts = yield from _counted(history, shown, by)
    worst = yield from _worst(decisions, wanted, by)
    every = [*(counts.keys() | worst.keys())]
    names: list[str] = []
    for begin in range(0, len(every), _CHUNK):
        among = [*names, *every[begin : begin + _CHUNK]]
        names = heapq.nsmallest(most, among, lambda n: (-worst.get(n, 0), -counts[n], n))
        yield
    present = yield from _present(decisions, wanted, names, by)
    filled = _Filled(names, by, query.since, query.until)
    for block in _oldest_first(history):
        records = _compliance(wanted.matching(block))
        yield
        for begin in range(0, len(records), _CHUNK):
            filled.add(block, records[begin : begin + _CHUNK])
            yield
    matrix = yield from filled.rows(present)
    rows = [Row(name, counts[name], matrix[number]) for number, name in enumerate(names)]
    return Timeline(query.since, query.until, rows, len(every) - len(names))


def _fields(query: Query) -> dict[str, Any]:
    return {name: getattr(query, name) for name in Query.__slots__}


def _oldest_first(history: History) -> Iterator[Block]:
    return reversed([*history.transitions.newest_first()])


def _compliance(records: Records) -> Records:
    """Return the records of the strategies that count."""
    return records[np.isin(records["strategy"], _OF_COMPLIANCE)]


def _counted(history: History, query: Query, by: str) -> Steps[Counter[str]]:
    """Return the number of transitions of each row."""
    counts: Counter[str] = Counter()
    for block in _oldest_first(history):
        numbers = np.bincount(_compliance(query.matching(block))[by])
        yield
        changed = numbers.nonzero()[0]
        for begin in range(0, len(changed), _CHUNK):
            some = changed[begin : begin + _CHUNK]
            for number, count in zip(some.tolist(), numbers[some].tolist(), strict=True):
                counts[str(block.symbols[number])] += count
            yield
    return counts


def _considered(
    decisions: Decisions, query: Query
) -> Iterator[tuple[PolicyKey, StrategyName, Phases]]:
    """Yield the phases now of the strategies that count."""
    for key, decision in decisions.policies.items():
        if query.namespace in {"", key.namespace} and query.policy in {"", str(key)}:
            for name, state in decision.states.items():
                if name.row.determines_compliance:
                    all_of = decision.policy.strategies[name].all_of
                    yield key, name, state.phases(all_of=all_of)


def _worst(decisions: Decisions, query: Query, by: str) -> Steps[Mapping[str, int]]:
    """Return the worst phase now of each row; clear ones are left out."""
    nodes, found = decisions.table.nodes, dict[str, int]()
    codes = np.zeros(len(nodes), np.uint8)
    among = nodes.all if not query.node else np.array([node == query.node for node in nodes], bool)
    for key, _, phases in _considered(decisions, query):
        present = np.where(among, phases, 0)
        np.maximum(codes, present, out=codes)
        if by == "policy" and present.any():
            found[str(key)] = max(found.get(str(key), 0), int(present.max()))
        yield
    if by == "policy":
        return found
    positions = codes.nonzero()[0].tolist()
    return dict(zip(nodes.names_at(codes > 0), codes[positions].tolist(), strict=True))


def _present(
    decisions: Decisions, query: Query, names: Sequence[str], by: str
) -> Steps[Mapping[_Key, int]]:
    """Return the phases now that are not clear, of some rows."""
    nodes, found = decisions.table.nodes, dict[_Key, int]()
    wanted = [query.node] if by == "policy" else names
    positions = [nodes.position[name] for name in wanted if name in nodes.position]
    for key, name, phases in _considered(decisions, query):
        for position in positions:
            if phases[position]:
                found[_Key(str(key), nodes[position], name)] = int(phases[position])
        yield
    return found


class _Filled:
    """The phases of some rows, from their records in order.

    A track is one phase over time, with a row in each array: the worst phase at a record in each part, the phase after the
    last one, `_NONE` without a record, and the phase before the first one.
    """

    def __init__(self, names: Sequence[str], by: str, since: float, until: float) -> None:
        self._rows = {name: number for number, name in enumerate(names)}
        self._by = by
        self._since = since
        self._width = max(until - since, 1e-3) / COLUMNS
        self._tracks: dict[_Key, int] = {}
        self._worst = np.zeros((0, COLUMNS), np.uint8)
        self._after = np.zeros((0, COLUMNS), np.uint8)
        self._first: list[int] = []
        self._block: Block | None = None
        self._shown = np.zeros(0, bool)
        """Which symbols of the block are rows."""

    def add(self, block: Block, records: Records) -> None:
        """Take over records that follow those before."""
        records = records[self._are_rows(block)[records[self._by]]]
        if not len(records):
            return
        keys = records["policy"].astype(np.uint64) << 36
        keys |= (records["node"].astype(np.uint64) << 4) | records["strategy"]
        _, begins, of = np.unique(keys, return_index=True, return_inverse=True)
        names = ("policy", "node", "strategy", "was")
        fields = (records[name][begins].tolist() for name in names)
        numbers = [self._track(block, *one) for one in zip(*fields, strict=True)]
        tracks = np.array(numbers, np.intp)[of]
        columns = ((records["at"] - self._since) // self._width).astype(np.intp)
        inside = columns < COLUMNS
        where = tracks[inside], columns[inside]
        was, now = records["was"][inside], records["kind"][inside]
        np.maximum.at(self._worst, where, np.maximum(was, now))
        self._after[where] = now  # of several in one part, the last counts

    def _are_rows(self, block: Block) -> Mask:
        if block is not self._block or len(self._shown) != len(block.symbols):
            self._block = block
            self._shown = np.array([symbol in self._rows for symbol in block.symbols], bool)
        return self._shown

    def _track(self, block: Block, policy: int, node: int, strategy: int, was: int) -> int:
        """Return the number of a track, which is added if it is new."""
        symbols = block.symbols
        key = _Key(str(symbols[policy]), str(symbols[node]), STRATEGIES[strategy])
        if (number := self._tracks.get(key)) is not None:
            return number
        if (number := len(self._tracks)) == len(self._worst):
            more = np.zeros((max(_TRACKS, number), COLUMNS), np.uint8)
            self._worst = np.concatenate([self._worst, more])
            self._after = np.concatenate([self._after, more + np.uint8(_NONE)])
        self._tracks[key] = number
        self._first.append(was)
        return number

    def rows(self, present: Mapping[_Key, int]) -> Steps[Phases]:
        """Return the worst phase of each row in each part, shape (rows, COLUMNS). `present`: phases without a record."""
        matrix = np.zeros((len(self._rows), COLUMNS), np.uint8)
        rows = np.array([self._rows[getattr(key, self._by)] for key in self._tracks], np.intp)
        first = np.array(self._first, np.uint8)
        for begin in range(0, len(rows), _TRACKS):
            some = slice(begin, min(begin + _TRACKS, len(rows)))
            found = _carried(first[some], self._worst[some], self._after[some])
            np.maximum.at(matrix, rows[some], found)
            yield
        for count, (key, phase) in enumerate(present.items(), start=1):
            if count % _CHUNK == 0:
                yield
            number = self._rows.get(getattr(key, self._by))
            if number is not None and key not in self._tracks:
                np.maximum(matrix[number], phase, out=matrix[number])
        return matrix


def _carried(first: Phases, worst: Phases, after: Phases) -> Phases:
    """Return the worst phase of tracks in each part, where parts without a record have the phase after the last one."""
    known = after != _NONE
    last = np.maximum.accumulate(np.where(known, np.arange(COLUMNS), -1), axis=1)
    held = np.where(last >= 0, np.take_along_axis(after, np.maximum(last, 0), 1), first[:, None])
    return np.maximum(np.where(known, 0, held), worst).astype(np.uint8)
