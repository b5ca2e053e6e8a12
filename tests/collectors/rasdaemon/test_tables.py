"""What is read from the tables of rasdaemon, in the layouts of several versions."""

import pytest

from collectors.rasdaemon.formats.rasrecords import mce_type
from tests.collectors.rasdaemon.recorder import (
    DIMM,
    MC_EVENT,
    V05,
    V06,
    V085,
    Read,
    Recorder,
    corrected,
    memory_errors,
)


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
