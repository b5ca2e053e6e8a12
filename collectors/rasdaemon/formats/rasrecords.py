"""How each table of rasdaemon's database is counted: which columns become labels."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Value = int | float | str | bytes | None
"""A value of any SQLite type; columns do not enforce theirs."""


class Row(NamedTuple):
    """Identity of a row: an id alone is reused after rows are deleted."""

    id: int
    timestamp: Value


class RecordMark(NamedTuple):
    """The position up to which a table was counted."""

    first: Row
    last: Row


class RecordColumn(NamedTuple):
    """A column, or some of its bits."""

    name: str
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Records:
    """How rows of a table are counted: grouped by `columns`, from which `labels` makes label values."""

    metric: str
    columns: tuple[RecordColumn, ...]
    labels: Callable[[Sequence[Value]], tuple[str, ...]]
    amount: str = ""
    """The column with the number of errors of a row; without one, a row counts once."""


def text(value: Value) -> str:
    """Return a label's value; empty for NULL."""
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def texts(values: Sequence[Value]) -> tuple[str, ...]:
    """Return the columns unchanged."""
    return tuple(map(text, values))


# Bits of an MCi_STATUS register, stored as a signed number.
_UNCORRECTED, _CONTEXT_CORRUPT, _DEFERRED = 1 << 61, 1 << 57, 1 << 44
_STATUS_BITS = _UNCORRECTED | _CONTEXT_CORRUPT | _DEFERRED
# The kernel's numbers of AMD and Hygon. For others the deferred bit is part of a count of corrected errors.
_VENDORS_THAT_DEFER = frozenset({2, 9})


def mce_type(status: Value, vendor: Value) -> str:
    """Return the severity of a machine check in rasdaemon's terms for memory errors; empty if unknown."""
    if not isinstance(status, int):
        return ""
    if status & _UNCORRECTED:
        return "Fatal" if status & _CONTEXT_CORRUPT else "Uncorrected"
    if status & _DEFERRED and vendor in _VENDORS_THAT_DEFER:
        return "Deferred"
    return "Corrected"


def _mce(values: Sequence[Value]) -> tuple[str, ...]:
    socket, bank, status, vendor = values
    return text(socket), text(bank), mce_type(status, vendor)


# Numbers of the UEFI specification (CPER, memory error section).
_EXTLOG_TYPES = (
    "unknown",
    "no_error",
    "single_bit_ecc",
    "multi_bit_ecc",
    "single_symbol_chipkill",
    "multi_symbol_chipkill",
    "master_abort",
    "target_abort",
    "parity",
    "watchdog_timeout",
    "invalid_address",
    "mirror_broken",
    "memory_sparing",
    "scrub_corrected",
    "scrub_uncorrected",
    "physical_map_out",
)
_EXTLOG_SEVERITIES = ("recoverable", "fatal", "corrected", "informational")


def _extlog(values: Sequence[Value]) -> tuple[str, ...]:
    kind, severity = values
    return _named(kind, _EXTLOG_TYPES), _named(severity, _EXTLOG_SEVERITIES)


def _named(value: Value, names: Sequence[str]) -> str:
    """Return the name of a number; a number without a name stays a number."""
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else text(value)


TABLES: Mapping[str, Records] = {
    "mc_event": Records(
        "rasdaemon_mc_events_total",
        (RecordColumn("mc"), RecordColumn("label"), RecordColumn("err_type")),
        texts,
        amount="err_count",
    ),
    "aer_event": Records(
        "rasdaemon_aer_events_total", (RecordColumn("dev_name"), RecordColumn("err_type")), texts
    ),
    "mce_record": Records(
        "rasdaemon_mce_records_total",
        (
            RecordColumn("socketid"),
            RecordColumn("bank"),
            RecordColumn("status", _STATUS_BITS),
            RecordColumn("cpuvendor"),
        ),
        _mce,
    ),
    # Its error_count is a sequence number.
    "extlog_event": Records(
        "rasdaemon_extlog_events_total", (RecordColumn("etype"), RecordColumn("severity")), _extlog
    ),
    "memory_failure_event": Records(
        "rasdaemon_memory_failure_events_total", (RecordColumn("action_result"),), texts
    ),
    "disk_errors": Records("rasdaemon_disk_errors_total", (RecordColumn("dev"),), texts),
}
CXL = "rasdaemon_cxl_events_total"
_CXL_TABLE = re.compile("cxl_[a-z0-9_]+")


def records_of(table: str) -> Records | None:
    """Return how a table is counted; None if it is not. Each version of rasdaemon adds cxl_ tables."""
    if _CXL_TABLE.fullmatch(table) is not None:
        return Records(CXL, (), lambda _: (table,))
    return TABLES.get(table)
