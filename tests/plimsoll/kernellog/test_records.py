"""Records of the kernel's log, and bytes that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.kernellog.records import LONGEST, Record, RecordError, encode, parse, parse_dump


@pytest.mark.parametrize(
    ("data", "record"),
    [
        (b"6,339,5140900,-;NET: Registered protocol family 10", Record(339, 5140900, 6, "NET: Registered protocol family 10")),
        (b"4,340,5690716,-,caller=T7;udevd[80]: starting\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n", Record(340, 5690716, 4, "udevd[80]: starting")),
        (b"30,1,0,c;a;b,c", Record(1, 0, 30, "a;b,c")),
        (rb"3,2,1,-;name \x0a<3>[ 1.0] EXT4-fs error", Record(2, 1, 3, r"name \x0a<3>[ 1.0] EXT4-fs error")),
        (b"3,2,1,-;\xff\xfe", Record(2, 1, 3, "\ufffd\ufffd")),
        (b"3,2,1,-;", Record(2, 1, 3, "")),
    ],
)  # fmt: skip
def test_records_of_dev_kmsg_are_parsed(data: bytes, record: Record) -> None:
    assert parse(data) == record


@pytest.mark.parametrize(
    "data", [b"", b"text", b"6,339;text", b"6,x,1,-;text", b"-6,1,1,-;t", b"6,1,1,-", b"6," + b"9" * 30 + b",1,-;t"]
)  # fmt: skip
def test_other_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        parse(data)


def test_dump_of_syslog_is_parsed_with_and_without_times() -> None:
    dump = b"""\
ff at the start
<6>[    5.140900] NET: Registered protocol family 10
<3>[  121.000001][ T4711] first line
<3>[  121.000001][ T4711] second line
<12>systemd[1]: no time
"""
    assert list(parse_dump(dump)) == [
        Record(0, 5_140_900, 6, "NET: Registered protocol family 10"),
        Record(0, 121_000_001, 3, "first line"),
        Record(0, 121_000_001, 3, "second line"),
        Record(0, 0, 12, "systemd[1]: no time"),
    ]


def test_records_that_programs_wrote_are_told_apart() -> None:
    assert parse(b"3,1,1,-;NVRM").of_kernel
    assert not parse(b"11,1,1,-;NVRM").of_kernel


@given(st.binary(max_size=3000))
def test_any_bytes_are_a_bounded_record_or_an_error(data: bytes) -> None:
    try:
        record = parse(b"6,1,1,-;" + data)
    except RecordError:
        raise AssertionError("text may be anything") from None
    assert len(record.text) <= LONGEST
    assert b"\n" not in encode(record)[:-1]
    assert parse(encode(record)).sequence == 1
    for line in parse_dump(data):
        assert len(line.text) <= LONGEST
