"""Writes the database of rasdaemon, as versions 0.5, 0.6.8 and 0.8.5 lay it out."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

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


Read = Callable[[], dict[str, float]]


def corrected(count: object = 1, label: object = DIMM) -> dict[str, object]:
    return {"mc": 1, "label": label, "err_type": "Corrected", "err_count": count}


def memory_errors(found: dict[str, float], kind: str = "Corrected") -> float:
    return found[f'rasdaemon_mc_events_total{{mc="1",label="{DIMM}",type="{kind}"}}']
