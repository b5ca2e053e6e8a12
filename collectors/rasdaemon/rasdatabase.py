"""Reads rasdaemon's SQLite database without disturbing rasdaemon.

rasdaemon does not wait for locks: an event that it cannot store because of a reader is lost. Locks are therefore held for a few
milliseconds at a time, and not at all while nothing has changed (see `collectors.rasdaemon.read_header`).
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from collectors.interface.sample import CollectorError
from collectors.rasdaemon.formats.rasrecent import Event, RecentErrors, earliest
from collectors.rasdaemon.formats.rasrecords import (
    RecordColumn,
    RecordMark,
    Records,
    Row,
    Value,
    records_of,
)

_PATIENCE_SECONDS = 0.25  # for rasdaemon's locks, which last some milliseconds
_CHUNK_ROWS = 5000
_MOST_IN_A_ROW = (1 << 31) - 1
_FIRST_ID = -(1 << 63)
_EVENTS = "mc_event"
_OF_EVENTS = frozenset({"timestamp", "err_type", "err_count", "address"})


class Counted(NamedTuple):
    """Rows with equal columns."""

    values: tuple[Value, ...]
    amount: int


@contextmanager
def opened(path: Path) -> Iterator["Database"]:
    """Open the database read-only for the block. SQLite errors become CollectorError."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE_SECONDS, isolation_level=None)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        with closing(connection):
            yield Database(connection)
    except sqlite3.Error as error:
        raise CollectorError(f"{path}: {error}") from error


class Database:
    """The queries. Each is one statement and locks the database no longer than that."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def count(
        self,
        marks: dict[str, RecordMark],
        counts: Mapping[str, Counter[tuple[str, ...]]],
        recent: RecentErrors,
        now: float,
    ) -> None:
        """Add new rows of all tables to the counts by metric, and advance the marks; both stay consistent on failure.

        Memory errors are also added to `recent`, once each, if this build of rasdaemon records where and when they were.
        """
        for table in self.tables():
            records = records_of(table)
            columns = self.columns(table) if records is not None else frozenset()
            if records is None or "id" not in columns:
                continue
            of_table = counts[records.metric]
            if not records.columns:
                of_table[records.labels(())] += 0  # a table without rows means zero errors
            mark = self.still(table, columns, marks.get(table))
            if mark is None:
                marks.pop(table, None)
            else:
                marks[table] = mark
            after = mark.last.id if mark is not None else _FIRST_ID
            timed = table == _EVENTS and columns >= _OF_EVENTS
            recent.known |= timed
            for mark, rows in self.new(table, columns, records, after):
                events = self.events(after, mark.last.id, earliest(now)) if timed else []
                for values, amount in rows:
                    of_table[records.labels(values)] += amount
                recent.add(events, now)
                marks[table] = mark
                after = mark.last.id

    def tables(self) -> list[str]:
        """Return the names of all tables."""
        query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        return [name for (name,) in self._rows(query) if isinstance(name, str)]

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table, which depend on the build of rasdaemon."""
        return frozenset(str(row[1]) for row in self._rows(f"PRAGMA table_info({_quoted(table)})"))

    def still(
        self, table: str, columns: frozenset[str], mark: RecordMark | None
    ) -> RecordMark | None:
        """Return the mark as far as it still applies; None if all rows are new."""
        if mark is None or self._row(table, columns, "id = ?", mark.last.id) == mark.last:
            return mark
        if self._row(table, columns, "id = ?", mark.first.id) != mark.first:
            return None  # another table of the same name: the database is new or was emptied
        # The newest rows were deleted. The remaining ones have been counted.
        newest = self._row(table, columns, "id >= ? ORDER BY id DESC", mark.first.id)
        return mark._replace(last=newest or mark.first)

    def new(
        self, table: str, columns: frozenset[str], records: Records, after: int
    ) -> Iterator[tuple[RecordMark, list[Counted]]]:
        """Yield counts of rows with higher ids in batches of some thousand, with a mark after each batch."""
        first = self._row(table, columns, "id > ? ORDER BY id", _FIRST_ID)
        while first is not None:
            last = self._row(
                table, columns, f"id > ? ORDER BY id LIMIT 1 OFFSET {_CHUNK_ROWS - 1}", after
            ) or self._row(table, columns, "id > ? ORDER BY id DESC", after)
            if last is None or last.id <= after:  # ids that are not numbers would loop forever
                return
            rows = self._rows(_count(table, columns, records), after, last.id)
            yield (
                RecordMark(first, last),
                [Counted(tuple(row[:-1]), _whole(row[-1])) for row in rows],
            )
            after = last.id

    def events(self, after: int, last: int, since: str) -> list[Event]:
        """Return memory errors in rows with ids above `after` up to `last`, from a day on."""
        columns = f"timestamp, err_type, address, {_amount('err_count')}"
        query = f"SELECT {columns} FROM {_EVENTS} WHERE id > ? AND id <= ? AND timestamp >= ?"  # noqa: S608 (names are ours)
        return [
            Event(timestamp, kind, address, _whole(amount))
            for timestamp, kind, address, amount in self._rows(query, after, last, since)
        ]

    def _row(self, table: str, columns: frozenset[str], where: str, id_: int) -> Row | None:
        timestamp = "timestamp" if "timestamp" in columns else "NULL"
        limit = "" if "LIMIT" in where else " LIMIT 1"
        query = f"SELECT id, {timestamp} FROM {_quoted(table)} WHERE {where}{limit}"  # noqa: S608 (names are quoted)
        for record, at in self._rows(query, id_):
            return Row(_whole(record), at)
        return None

    def _rows(self, query: str, *arguments: int | str) -> list[tuple[Value, ...]]:
        return self._connection.execute(query, arguments).fetchall()


def _count(table: str, columns: frozenset[str], records: Records) -> str:
    """Return the statement that counts rows by columns. Columns that this build lacks are NULL."""
    picked = [_expression(column, columns) for column in records.columns]
    amount = "COUNT(*)"
    if records.amount in columns:
        amount = f"SUM({_amount(records.amount)})"
    query = f"SELECT {', '.join([*picked, amount])} FROM {_quoted(table)} WHERE id > ? AND id <= ?"  # noqa: S608 (names are quoted)
    groups = ", ".join(str(number) for number in range(1, len(picked) + 1))
    return f"{query} GROUP BY {groups}" if groups else query


def _amount(column: str) -> str:
    """Return SQL for a row's number of errors: its column if plausible, else 1."""
    count = _quoted(column)
    sound = f"typeof({count}) = 'integer' AND {count} BETWEEN 1 AND {_MOST_IN_A_ROW}"
    return f"CASE WHEN {sound} THEN {count} ELSE 1 END"


def _expression(column: RecordColumn, columns: frozenset[str]) -> str:
    if column.name not in columns:
        return "NULL"
    name = _quoted(column.name)
    return name if column.bits is None else f"{name} & {column.bits}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _whole(value: Value) -> int:
    return value if isinstance(value, int) else 0
