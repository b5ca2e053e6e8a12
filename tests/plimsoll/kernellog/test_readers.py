"""Readers of the kernel's log: what is new, once, and how much was lost."""

import contextlib
import errno
import os
import uuid
from pathlib import Path

import pytest

from plimsoll.kernellog.readers import (
    DEVICE,
    Batch,
    FileReader,
    KernelLogError,
    KmsgReader,
    PacedReader,
    Position,
    SyslogReader,
    klogctl,
    open_reader,
)
from plimsoll.kernellog.records import Record


def texts(batch: Batch) -> list[str]:
    return [record.text for record in batch.records]


def drained(reader) -> list[Record]:
    records: list[Record] = []
    while batch := reader.read(0).records:
        records += batch
    return records


@pytest.fixture
def kmsg():
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        pytest.skip("/dev/kmsg is absent, or this user may not write to it")
    try:
        reader = KmsgReader()
    except KernelLogError as error:
        pytest.skip(str(error))
    with contextlib.closing(reader):
        yield reader


def test_line_written_to_dev_kmsg_is_read_once_over_restarts(kmsg: KmsgReader) -> None:
    drained(kmsg)
    text = f"plimsoll test {uuid.uuid4()}"
    DEVICE.write_text(f"<6>{text}\n")
    mine = [record for record in kmsg.read(10).records if record.text == text]
    assert len(mine) == 1
    assert not mine[0].of_kernel
    after = Position("boot", mine[0].sequence, mine[0].microseconds)
    with contextlib.closing(open_reader(None, after)) as again:
        assert text not in [record.text for record in drained(again)]


def test_line_written_to_dev_kmsg_is_read_once_by_syslog(kmsg: KmsgReader) -> None:
    try:
        reader = SyslogReader()
    except KernelLogError as error:
        pytest.skip(str(error))
    drained(reader)
    text = f"plimsoll test {uuid.uuid4()}"
    DEVICE.write_text(f"<6>{text}\n")
    assert texts(reader.read(10)).count(text) == 1
    assert reader.read(0).records == []


class Dump:
    """A log as syslog(2) returns it: the last bytes of a ring, whole lines."""

    def __init__(self, size: int) -> None:
        self.size, self.lines = size, [""]
        self.calls = 0

    def append(self, *lines: str) -> None:
        self.lines += lines
        while len(self.text(self.size)) > self.size:
            del self.lines[0]

    def text(self, most: int) -> bytes:
        kept: list[str] = []
        for line in reversed(self.lines):
            if sum(map(len, kept)) + len(line) > most:
                break
            kept.insert(0, line)
        return "".join(kept).encode()

    def __call__(self, action: int, size: int) -> bytes | int:
        self.calls += 1
        return self.text(size) if action == 3 else self.size


def line(number: int) -> str:
    return f"<6>[{number:5}.000000] line {number} {'x' * 80}\n"


def numbers(batch: Batch) -> list[int]:
    return [int(record.text.split()[1]) for record in batch.records]


def test_syslog_returns_what_was_appended() -> None:
    dump = Dump(1 << 20)
    dump.append(*map(line, range(3000)))
    reader = SyslogReader(call=dump)
    assert numbers(reader.read(0)) == [*range(3000)]
    dump.append(line(3000), line(3001))
    assert numbers(reader.read(0)) == [3000, 3001]
    dump.append(*map(line, range(3002, 3500)))  # more than the short read
    assert numbers(reader.read(0)) == [*range(3002, 3500)]
    assert reader.read(0) == Batch([])


def test_syslog_counts_an_overwritten_place_as_lost() -> None:
    dump = Dump(20_000)
    dump.append(*map(line, range(5)))
    reader = SyslogReader(call=dump)
    reader.read(0)
    dump.append(*map(line, range(5, 1000)))
    batch = reader.read(0)
    assert batch.lost == 1
    assert numbers(batch)[-1] == 999


def test_syslog_continues_after_a_time() -> None:
    dump = Dump(1 << 20)
    dump.append(*map(line, range(10)))
    reader = SyslogReader(after_microseconds=7_000_000, call=dump)
    assert numbers(reader.read(0)) == [8, 9]


def test_missing_capability_is_an_error_with_advice() -> None:
    def refused(_action: int, _size: int) -> bytes:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with pytest.raises(KernelLogError, match="capability SYSLOG"):
        SyslogReader(call=refused)


def test_real_syslog_call_reports_errors() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        klogctl(99, 0)


def test_file_is_read_as_it_grows_and_damaged_lines_are_lost(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    reader = FileReader(path)
    assert reader.read(0) == Batch([])
    path.write_bytes(b"6,0,1,-;zero\n6,1,2,-;one\nrubbish\n6,2,3,-;unfin")
    batch = reader.read(0)
    assert (texts(batch), batch.lost) == (["zero", "one"], 1)
    with path.open("ab") as file:
        file.write(b"ished\n")
    assert texts(reader.read(0)) == ["unfinished"]
    assert texts(FileReader(path, after=1).read(0)) == ["unfinished"]


def test_lines_about_a_record_are_neither_records_nor_lost(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(b"6,0,1,-;Link down\n SUBSYSTEM=pci\n DEVICE=+pci:0000:4b:00.0\n6,1,2,-;one\n")
    batch = FileReader(path).read(0)
    assert (texts(batch), batch.lost) == (["Link down", "one"], 0)


def test_source_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KernelLogError, match="No such file"):
        KmsgReader(tmp_path / "none")


class Flood:
    """A log with endless records."""

    def read(self, _timeout: float) -> Batch:
        return Batch([Record(1, 1, 6, "x")] * 1000)

    def close(self) -> None:
        pass


def test_pace_is_bounded() -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    reader = PacedReader(Flood(), 10_000, clock=lambda: now, sleep=sleep)
    records = sum(len(reader.read(0).records) for _ in range(101))
    assert records / now == pytest.approx(10_000, rel=0.02)
