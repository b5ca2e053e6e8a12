import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.rasdaemon import Options, Rasdaemon
from collectors.rasdaemon.formats.rasrecords import mce_type

MC_EVENT = (
    "id INTEGER PRIMARY KEY, timestamp TEXT, err_count INTEGER, err_type TEXT, err_msg TEXT, label TEXT, mc INTEGER, "
    "top_layer INTEGER, middle_layer INTEGER, lower_layer INTEGER, address INTEGER, grain INTEGER, syndrome INTEGER, "
    "driver_detail TEXT"
)
MCE_RECORD = (
    "id INTEGER PRIMARY KEY, timestamp TEXT, mcgcap INTEGER, mcgstatus INTEGER, status INTEGER, addr INTEGER, "
    "misc INTEGER, ip INTEGER, tsc INTEGER, walltime INTEGER, cpu INTEGER, cpuid INTEGER, apicid INTEGER, "
    "socketid INTEGER, cs INTEGER, bank INTEGER, cpuvendor INTEGER, bank_name TEXT, error_msg TEXT, "
    "mcgstatus_msg TEXT, mcistatus_msg TEXT, user_action TEXT, mc_location TEXT"
)
# What rasdaemon 0.5, 0.6.8 and 0.8.5 create; the middle one as Debian and Ubuntu built it.
V05 = {
    "mc_event": MC_EVENT,
    "aer_event": "id INTEGER PRIMARY KEY, timestamp TEXT, err_type TEXT, err_msg TEXT",
    "mce_record": MCE_RECORD,
}
V06 = {
    "mc_event": MC_EVENT,
    "aer_event": "id INTEGER PRIMARY KEY, timestamp TEXT, dev_name TEXT, err_type TEXT, err_msg TEXT",
    "mce_record": f"{MCE_RECORD}, mcastatus_msg TEXT",
    "extlog_event": "id INTEGER PRIMARY KEY, timestamp TEXT, etype INTEGER, error_count INTEGER, severity INTEGER, "
    "address INTEGER, fru_id BLOB, fru_text TEXT, cper_data BLOB",
    "disk_errors": "id INTEGER PRIMARY KEY, timestamp TEXT, dev TEXT, sector INTEGER, nr_sector INTEGER, error TEXT, "
    "rwbs TEXT, cmd TEXT",
    "memory_failure_event": "id INTEGER PRIMARY KEY, timestamp TEXT, pfn TEXT, page_type TEXT, action_result TEXT",
}
CXL_HEAD = "id INTEGER PRIMARY KEY, timestamp TEXT, memdev TEXT, host TEXT, serial INTEGER"
V085 = {
    **V06,
    "mce_record": f"{MCE_RECORD}, ppin INTEGER, microcode INTEGER, mcastatus_msg TEXT",
    "cxl_poison_event": f"{CXL_HEAD}, trace_type TEXT, dpa INTEGER",
    "cxl_aer_ue_event": f"{CXL_HEAD}, error_status INTEGER, header_log BLOB",
    "cxl_overflow_event": f'{CXL_HEAD}, log_type TEXT, "count" INTEGER',
    "signal_event": "id INTEGER PRIMARY KEY, timestamp TEXT, sig INTEGER, comm TEXT",
    "devlink_event": "id INTEGER PRIMARY KEY, timestamp TEXT, bus_name TEXT, msg TEXT",
}
AT = "2026-03-01 04:05:06 +0000"
DIMM = "CPU_SrcID#0_MC#1_Chan#0_DIMM#0"


class Recorder:
    """Writes to the database as rasdaemon does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, tables: dict[str, str], *, pragma: str = "") -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute(pragma)
            for name, columns in tables.items():
                db.execute(f"CREATE TABLE {name} ({columns})")

    def add(self, table: str, *rows: dict[str, object]) -> None:
        with closing(sqlite3.connect(self.path)) as db:
            for row in rows:
                stamped = {"timestamp": AT, **row}
                names, marks = ", ".join(stamped), ", ".join("?" * len(stamped))
                db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", (*stamped.values(),))
            db.commit()

    def run(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            for statement in statements:
                db.execute(statement)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "var/lib/rasdaemon/ras-mc_event.db")


@pytest.fixture
def clock() -> list[float]:
    """Unix time, set by the test; by default a month after the timestamps of rows."""
    return [datetime(2026, 4, 1, 12, tzinfo=UTC).timestamp()]


@pytest.fixture
def collector(tmp_path: Path, clock: list[float]) -> Rasdaemon:
    return Rasdaemon(Host(rootfs=tmp_path), Options(), clock=lambda: clock[0])


Read = Callable[[], dict[str, float]]


@pytest.fixture
def read(collector: Rasdaemon, values: Callable[[Iterable[object]], dict[str, float]]) -> Read:
    return lambda: values(collector.collect())


def corrected(count: object = 1, label: object = DIMM) -> dict[str, object]:
    return {"mc": 1, "label": label, "err_type": "Corrected", "err_count": count}


def memory_errors(found: dict[str, float], kind: str = "Corrected") -> float:
    return found[f'rasdaemon_mc_events_total{{mc="1",label="{DIMM}",type="{kind}"}}']


def test_every_table_is_exported(recorder: Recorder, read: Read) -> None:
    recorder.create(V085)
    recorder.add("mc_event", corrected(3), corrected(1), {**corrected(), "err_type": "Uncorrected"})
    recorder.add("aer_event", {"dev_name": "0000:3b:00.0", "err_type": "Corrected"})
    recorder.add("aer_event", {"dev_name": "0000:3b:00.0", "err_type": "Uncorrected (Fatal)"})
    # bd80000000100134 as a signed number: an uncorrected data read error, as in a bug report of rasdaemon's
    status = 0xBD80000000100134 - (1 << 64)
    recorder.add("mce_record", {"socketid": 1, "bank": 1, "status": status, "cpuvendor": 0})
    recorder.add("extlog_event", {"etype": 2, "severity": 2, "error_count": 917})
    recorder.add("memory_failure_event", {"pfn": "0x5b2f3", "action_result": "Recovered"})
    recorder.add("disk_errors", {"dev": "8:16", "error": "I/O error"}, {"dev": "8:16"})
    recorder.add("cxl_poison_event", {"memdev": "mem0"}, {"memdev": "mem1"})
    recorder.add("signal_event", {"sig": 7})
    assert read() == {
        f'rasdaemon_mc_events_total{{mc="1",label="{DIMM}",type="Corrected"}}': 4,
        f'rasdaemon_mc_events_total{{mc="1",label="{DIMM}",type="Uncorrected"}}': 1,
        'rasdaemon_aer_events_total{device="0000:3b:00.0",type="Corrected"}': 1,
        'rasdaemon_aer_events_total{device="0000:3b:00.0",type="Uncorrected (Fatal)"}': 1,
        'rasdaemon_mce_records_total{socket="1",bank="1",type="Uncorrected"}': 1,
        'rasdaemon_extlog_events_total{type="single_bit_ecc",severity="corrected"}': 1,
        'rasdaemon_memory_failure_events_total{result="Recovered"}': 1,
        'rasdaemon_disk_errors_total{device="8:16"}': 2,
        'rasdaemon_cxl_events_total{table="cxl_poison_event"}': 2,
        'rasdaemon_cxl_events_total{table="cxl_aer_ue_event"}': 0,
        'rasdaemon_cxl_events_total{table="cxl_overflow_event"}': 0,
        "rasdaemon_memory_uncorrected_errors_24h": 0,
        "rasdaemon_memory_page_corrected_errors_24h": 0,
    }


def test_only_new_rows_are_added(recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add("mc_event", corrected(3))
    assert memory_errors(read()) == 3
    assert memory_errors(read()) == 3
    recorder.add("mc_event", corrected(2), corrected(5))
    assert memory_errors(read()) == 10


def test_more_rows_than_one_batch_are_read(recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add("mc_event", *([corrected()] * 12001))
    assert memory_errors(read()) == 12001


@pytest.mark.parametrize("layout", [V05, V06, V085])
def test_layouts_of_several_versions_are_read(
    layout: dict[str, str], recorder: Recorder, read: Read
) -> None:
    recorder.create(layout)
    recorder.add("mc_event", corrected(3))
    recorder.add("aer_event", {"err_type": "Corrected"})
    recorder.add("mce_record", {"socketid": 0, "bank": 7, "status": 1 << 60, "cpuvendor": 0})
    found = read()
    assert memory_errors(found) == 3
    assert found['rasdaemon_aer_events_total{device="",type="Corrected"}'] == 1
    assert found['rasdaemon_mce_records_total{socket="0",bank="7",type="Corrected"}'] == 1


def test_unknown_columns_of_a_later_version_are_ignored(recorder: Recorder, read: Read) -> None:
    """Missing columns are empty; uncountable tables and views are ignored."""
    recorder.create(
        {
            "mc_event": "timestamp TEXT, id INTEGER PRIMARY KEY, controller TEXT, label TEXT",
            "mce_record": "timestamp TEXT, uuid TEXT",
            "disk_errors": "id TEXT, timestamp TEXT, dev TEXT",
            "cxl_memory_sparing_event": "id INTEGER PRIMARY KEY, timestamp TEXT",
            "quantum_event": "id INTEGER PRIMARY KEY",
        }
    )
    recorder.run("CREATE VIEW aer_event AS SELECT 1 AS id, 'x' AS dev_name")
    recorder.add("mc_event", {"label": DIMM})
    recorder.add("disk_errors", {"id": "a7", "dev": "8:0"}, {"id": "b9", "dev": "8:0"})
    assert {s: v for s, v in read().items() if "disk" not in s} == {
        f'rasdaemon_mc_events_total{{mc="",label="{DIMM}",type=""}}': 1,
        'rasdaemon_cxl_events_total{table="cxl_memory_sparing_event"}': 0,
    }


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


def test_values_of_any_type_do_no_harm(recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add(
        "mc_event",
        corrected(None),
        corrected("many"),
        corrected(-5),
        corrected(1 << 62),
        corrected(1, label=b"\xff\x00"),
        corrected(1, label=None),
        corrected(1, label=2.5),
    )
    recorder.run("INSERT INTO mc_event (label, mc) VALUES (CAST(x'ff41' AS TEXT), 1)")
    recorder.add("mce_record", {"status": "x", "socketid": None, "bank": b"\x01"})
    recorder.add("extlog_event", {"etype": 99, "severity": -1}, {"etype": "2"})
    found = read()
    assert memory_errors(found) == 4
    assert found['rasdaemon_mc_events_total{mc="1",label="\ufffd\x00",type="Corrected"}'] == 1
    assert found['rasdaemon_mc_events_total{mc="1",label="",type="Corrected"}'] == 1
    assert found['rasdaemon_mc_events_total{mc="1",label="2.5",type="Corrected"}'] == 1
    assert found['rasdaemon_mc_events_total{mc="1",label="\ufffdA",type=""}'] == 1
    assert found['rasdaemon_extlog_events_total{type="99",severity="-1"}'] == 1


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


@pytest.mark.parametrize(
    ("status", "vendor", "kind"),
    [
        (0x8C00004000010090 - (1 << 64), 0, "Corrected"),
        (0xBD80000000100134 - (1 << 64), 0, "Uncorrected"),
        (0xBE00000000800400 - (1 << 64), 0, "Fatal"),
        (0x9C2041000000011B - (1 << 64), 0, "Corrected"),
        (0x9C2051000000011B - (1 << 64), 2, "Deferred"),
        (0x9C2051000000011B - (1 << 64), 9, "Deferred"),
        (0x9C2051000000011B - (1 << 64), 0, "Corrected"),
        (0x9C2051000000011B - (1 << 64), None, "Corrected"),
        (None, 0, ""),
        ("", 0, ""),
    ],
)
def test_severity_of_a_machine_check_is_derived(status: object, vendor: object, kind: str) -> None:
    assert mce_type(status, vendor) == kind


RECENT = "2026-04-01 13:30:00 +0200"  # half an hour ago
UNCORRECTED = "rasdaemon_memory_uncorrected_errors_24h"
OF_A_PAGE = "rasdaemon_memory_page_corrected_errors_24h"


def at(time: object, address: object = 0x7F000, **fields: object) -> dict[str, object]:
    return {**corrected(), "timestamp": time, "address": address, **fields}


def test_errors_of_the_last_day_use_the_time_in_the_rows(
    recorder: Recorder, read: Read, clock: list[float]
) -> None:
    recorder.create(V06)
    recorder.add("mc_event", at("2026-03-31 11:58:00 +0000", err_type="Uncorrected"))
    recorder.add("mc_event", at("2026-03-31 12:30:00 +0000", err_type="Uncorrected"))
    recorder.add("mc_event", at(RECENT, err_type="Fatal"), at(RECENT, err_type="Info"))
    found = read()
    assert (found[UNCORRECTED], found[OF_A_PAGE]) == (2, 0)
    clock[0] += 3600
    assert read()[UNCORRECTED] == 1, "although nothing was written"
    clock[0] += 86_400
    assert read()[UNCORRECTED] == 0


def test_page_with_the_most_corrected_errors_is_exported(
    recorder: Recorder, read: Read, clock: list[float]
) -> None:
    recorder.create(V06)
    recorder.add("mc_event", at(RECENT, 0x7F000, err_count=3), at(RECENT, 0x7FFFF, err_count=2))
    recorder.add("mc_event", at(RECENT, 0x80000, err_count=4), at("2026-03-01 00:00:00 +0000"))
    assert read()[OF_A_PAGE] == 5
    recorder.add("mc_event", at("2026-04-01 11:59:00 +0000", 0x80010, err_count=2))
    assert read()[OF_A_PAGE] == 6
    assert read()[OF_A_PAGE] == 6, "each row once"
    clock[0] += 86_400 - 1200
    assert read()[OF_A_PAGE] == 2


def test_rows_without_a_time_or_address_belong_to_no_page(recorder: Recorder, read: Read) -> None:
    recorder.create(V06)
    recorder.add(
        "mc_event", at(None), at("yesterday"), at("2026-04-01 11:00:00 +9999"), at(b"\xff")
    )
    recorder.add("mc_event", at(RECENT, None), at(RECENT, 0), at(RECENT, "0x7f000"))
    assert read()[OF_A_PAGE] == 0
    recorder.add("mc_event", at("2026-04-01 23:00:00 +0000"))
    assert read()[OF_A_PAGE] == 1, "a clock corrected since"


def test_table_without_time_and_address_has_no_recent_errors(
    recorder: Recorder, read: Read
) -> None:
    recorder.create({"mc_event": MC_EVENT.replace("address INTEGER, ", "")})
    recorder.add("mc_event", corrected())
    assert memory_errors(read()) == 1
    assert not {UNCORRECTED, OF_A_PAGE} & read().keys()
