"""The database of rasdaemon as a file: missing, replaced, locked, truncated, or of another format."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.rasdaemon import Options, Rasdaemon
from tests.collectors.rasdaemon.recorder import (
    AT,
    DIMM,
    V06,
    Read,
    Recorder,
    corrected,
    memory_errors,
)


def test_missing_database_is_absent_until_it_exists(recorder: Recorder, read: Read) -> None:
    with pytest.raises(SourceAbsentError, match="no such database"):
        read()
    recorder.path.parent.mkdir(parents=True)
    recorder.path.touch()
    with pytest.raises(SourceAbsentError, match="empty"):
        read()
    recorder.create(V06)
    assert set(read().values()) == {0}
    recorder.add("mc_event", corrected())
    assert memory_errors(read()) == 1


def test_new_database_adds_to_the_old_one(recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add("mc_event", corrected(10), corrected(10))
    assert memory_errors(read()) == 20
    recorder.path.unlink()
    with pytest.raises(SourceAbsentError):
        read()
    recorder.create(V06)
    recorder.add("mc_event", *({**corrected(), "timestamp": f"2026-04-0{d}"} for d in (1, 2, 3)))
    assert memory_errors(read()) == 23


def test_same_rows_in_another_file_are_not_counted_again(
    recorder: Recorder, read: Read, tmp_path: Path
) -> None:
    recorder.create(V06)
    recorder.add("mc_event", corrected(10), corrected(10))
    read()
    recorder.run(f"VACUUM INTO '{tmp_path}/copy.db'")
    (tmp_path / "copy.db").rename(recorder.path)
    recorder.add("mc_event", corrected(2))
    assert memory_errors(read()) == 22


@pytest.mark.parametrize("deleted", ["1", "id <= 2", "id >= 2", "id = 1", "id = 3"])
def test_deleted_rows_stay_counted(deleted: str, recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add("mc_event", *({**corrected(2), "timestamp": f"2026-04-0{d}"} for d in (1, 2, 3)))
    assert memory_errors(read()) == 6
    recorder.run(f"DELETE FROM mc_event WHERE {deleted}")
    assert memory_errors(read()) == 6
    recorder.add("mc_event", {**corrected(1), "timestamp": "2026-04-04"})
    assert memory_errors(read()) == 7


def test_lock_is_an_error_while_it_lasts(recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add("mc_event", corrected(1))
    read()
    recorder.add("mc_event", corrected(1))
    with closing(sqlite3.connect(recorder.path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CollectorError, match="locked"):
            read()
        writer.execute("ROLLBACK")
    assert memory_errors(read()) == 2


def test_nothing_is_locked_while_nothing_changed(recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add("mc_event", corrected(1))
    read()
    with closing(sqlite3.connect(recorder.path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert memory_errors(read()) == 1
        writer.execute("ROLLBACK")


def test_reader_does_not_block_the_writer_afterwards(recorder: Recorder, read: Read) -> None:
    """rasdaemon does not wait for a lock: what it cannot store at once is lost."""
    recorder.create(V06)
    with closing(sqlite3.connect(recorder.path, timeout=0)) as rasdaemon:
        for count in range(1, 4):
            rasdaemon.execute(
                "INSERT INTO mc_event (timestamp, mc, label, err_type, err_count) VALUES (?, 1, ?, 'Corrected', 1)",
                (AT, DIMM),
            )
            rasdaemon.commit()
            assert memory_errors(read()) == count


def test_database_with_a_write_ahead_log_is_read(recorder: Recorder, read: Read) -> None:
    recorder.create(V06, pragma="PRAGMA journal_mode=WAL")
    with closing(sqlite3.connect(recorder.path)) as writer:
        for count in (1, 2):
            writer.execute(
                "INSERT INTO mc_event (timestamp, mc, label, err_type, err_count) VALUES (?, 1, ?, 'Corrected', 1)",
                (AT, DIMM),
            )
            writer.commit()
            assert memory_errors(read()) == count


def test_truncated_database_is_an_error_until_it_is_whole(recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add("mc_event", *([corrected()] * 500))
    read()
    recorder.add("mc_event", corrected())
    whole = recorder.path.read_bytes()
    for size in (50, 100, 4096, len(whole) // 2):
        recorder.path.write_bytes(whole[:size])
        with pytest.raises(CollectorError, match="ras-mc_event"):
            read()
    recorder.path.write_bytes(whole)
    assert memory_errors(read()) == 501


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 50, b"\0" * 4096, b"SQLite format 3\0"]
)
def test_other_file_is_an_error(content: bytes, recorder: Recorder, read: Read) -> None:
    recorder.path.parent.mkdir(parents=True)
    recorder.path.write_bytes(content)
    with pytest.raises(CollectorError, match="not an SQLite database"):
        read()


@pytest.mark.parametrize(("offset", "value"), [(19, 3), (44 + 3, 9), (100, 0xFF)])
def test_newer_or_corrupt_format_is_an_error_while_it_lasts(
    offset: int, value: int, recorder: Recorder, read: Read
) -> None:
    """The versions of readers and schema, and the root page."""
    recorder.create(V06)
    recorder.add("mc_event", corrected())
    good = recorder.path.read_bytes()
    recorder.path.write_bytes(good[:offset] + bytes([value]) + good[offset + 1 :])
    with pytest.raises(CollectorError, match="ras-mc_event"):
        read()
    recorder.path.write_bytes(good)
    assert memory_errors(read()) == 1


def test_fifo_or_directory_does_not_hang(recorder: Recorder, read: Read) -> None:
    recorder.path.parent.mkdir(parents=True)
    os.mkfifo(recorder.path)
    with pytest.raises(CollectorError, match="not a regular file"):
        read()
    recorder.path.unlink()
    recorder.path.mkdir()
    with pytest.raises(CollectorError, match="not a regular file"):
        read()


def test_path_is_configurable(tmp_path: Path, values) -> None:
    recorder = Recorder(tmp_path / "elsewhere/100% ras?.db")
    recorder.create(V06)
    recorder.add("mc_event", corrected(3))
    options = Options(rasdaemon_database="/elsewhere/100% ras?.db")
    assert memory_errors(values(Rasdaemon(Host(rootfs=tmp_path), options).collect())) == 3


def test_database_is_never_written(recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add("mc_event", corrected())
    before = recorder.path.read_bytes(), recorder.path.stat().st_mtime_ns
    read()
    assert (recorder.path.read_bytes(), recorder.path.stat().st_mtime_ns) == before
    assert [path.name for path in recorder.path.parent.iterdir()] == [recorder.path.name]
