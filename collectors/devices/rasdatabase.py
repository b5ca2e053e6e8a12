"""Reading of rasdaemon's SQLite database that leaves rasdaemon alone.

It writes without waiting for locks: an event that it cannot store because somebody reads is lost. So a lock is held only
for a few milliseconds at a time, and none while nothing has changed (see `collectors.readers.sqliteheader`).
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from collectors.base.sample import CollectorError
from collectors.formats.rasrecent import Event, RecentErrors, earliest
from collectors.formats.rasrecords import RecordColumn, RecordMark, Records, Row, Value, records_of

_PATIENCE_SECONDS = 0.25  # for a lock of rasdaemon's, which holds one for some milliseconds
_CHUNK_ROWS = 5000
_MOST_IN_A_ROW = (1 << 31) - 1
_FIRST_ID = -(1 << 63)
_EVENTS = "mc_event"
_OF_EVENTS = frozenset({"timestamp", "err_type", "err_count", "address"})


class Counted(NamedTuple):
    """Some rows that agree in their columns."""

    values: tuple[Value, ...]
    amount: int


@contextmanager
def opened(path: Path) -> Iterator["Database"]:
    """The database, read-only, while the block runs. Whatever SQLite complains of becomes a CollectorError."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE_SECONDS, isolation_level=None)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        with closing(connection):
            yield Database(connection)
    except sqlite3.Error as error:
        raise CollectorError(f"{path}: {error}") from error


class Database:
    """The questions that are asked. Each is one statement, and holds a lock no longer than that."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def count(
        self,
        marks: dict[str, RecordMark],
        counts: Mapping[str, Counter[tuple[str, ...]]],
        recent: RecentErrors,
        now: float,
    ) -> None:
        """Add what is new in all tables to the counts by metric, and move the marks. Both fit even if it fails halfway.

        Memory errors are added to `recent` as well, each once, if this build of rasdaemon notes where and when they were.
        """
        for table in self.tables():
            records = records_of(table)
            columns = self.columns(table) if records is not None else frozenset()
            if records is None or "id" not in columns:
                continue
            of_table = counts[records.metric]
            if not records.columns:
                of_table[records.labels(())] += 0  # a table without rows says that nothing happened
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
        """The names of all tables."""
        query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        return [name for (name,) in self._rows(query) if isinstance(name, str)]

    def columns(self, table: str) -> frozenset[str]:
        """The names of a table's columns, which differ from build to build of rasdaemon."""
        return frozenset(str(row[1]) for row in self._rows(f"PRAGMA table_info({_quoted(table)})"))

    def still(
        self, table: str, columns: frozenset[str], mark: RecordMark | None
    ) -> RecordMark | None:
        """The mark as far as it still holds; None where all rows are new."""
        if mark is None or self._row(table, columns, "id = ?", mark.last.id) == mark.last:
            return mark
        if self._row(table, columns, "id = ?", mark.first.id) != mark.first:
            return None  # another table of the same name: a new database, or one that was emptied
        # Someone deleted the newest rows. Those that are left have been counted.
        newest = self._row(table, columns, "id >= ? ORDER BY id DESC", mark.first.id)
        return mark._replace(last=newest or mark.first)

    def new(
        self, table: str, columns: frozenset[str], records: Records, after: int
    ) -> Iterator[tuple[RecordMark, list[Counted]]]:
        """The rows with higher ids, counted, some thousand at a time, with a mark behind each of these parts."""
        first = self._row(table, columns, "id > ? ORDER BY id", _FIRST_ID)
        while first is not None:
            last = self._row(
                table, columns, f"id > ? ORDER BY id LIMIT 1 OFFSET {_CHUNK_ROWS - 1}", after
            ) or self._row(table, columns, "id > ? ORDER BY id DESC", after)
            if last is None or last.id <= after:  # ids that are no numbers would never end
                return
            rows = self._rows(_count(table, columns, records), after, last.id)
            yield (
                RecordMark(first, last),
                [Counted(tuple(row[:-1]), _whole(row[-1])) for row in rows],
            )
            after = last.id

    def events(self, after: int, last: int, since: str) -> list[Event]:
        """The memory errors in rows above the id `after`, not above `last`, and not before a day."""
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
        for found, at in self._rows(query, id_):
            return Row(_whole(found), at)
        return None

    def _rows(self, query: str, *arguments: int | str) -> list[tuple[Value, ...]]:
        return self._connection.execute(query, arguments).fetchall()


def _count(table: str, columns: frozenset[str], records: Records) -> str:
    """The statement that counts rows by their columns. A column that this build does not have is NULL."""
    picked = [_expression(column, columns) for column in records.columns]
    amount = "COUNT(*)"
    if records.amount in columns:
        amount = f"SUM({_amount(records.amount)})"
    query = f"SELECT {', '.join([*picked, amount])} FROM {_quoted(table)} WHERE id > ? AND id <= ?"  # noqa: S608 (names are quoted)
    groups = ", ".join(str(number) for number in range(1, len(picked) + 1))
    return f"{query} GROUP BY {groups}" if groups else query


def _amount(column: str) -> str:
    """How many errors a row stands for: what is in the column, if that can be."""
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
