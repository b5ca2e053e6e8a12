"""Readers of the kernel's log: /dev/kmsg, syslog(2), and a file with records as in /dev/kmsg, for tests and game days.

Each returns what is new since its last read. The kernel's buffer is a ring: whatever a slow reader misses is counted, exactly by
sequence numbers, or as one loss by syslog(2), which has no numbers.
"""

import contextlib
import ctypes
import errno
import os
import select
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from plimsoll.kernellog.records import Record, RecordError, parse, parse_dump

DEVICE = Path("/dev/kmsg")
_MOST = 1000
"""Records returned by one read."""
_RECORD_BYTES = 16 << 10
"""More than the kernel's largest record; a smaller buffer is an error (EINVAL)."""
_PAUSE = 0.2
"""Seconds between two looks at a source that cannot be waited for."""
_READ_ALL, _SIZE = 3, 10
"""Actions of syslog(2)."""
_TAIL = 4096
"""Bytes by which the place is found again in the next dump."""
_LARGEST_DUMP = 64 << 20


class KernelLogError(Exception):
    """The kernel's log cannot be read; the text says what to do."""


class Batch(NamedTuple):
    """What is new in the log, oldest first, and how many records before it were lost."""

    records: list[Record]
    lost: int = 0


class Reader(Protocol):
    """Reads the kernel's log from its oldest record on."""

    def read(self, timeout: float) -> Batch:
        """Return what is new; wait for it at most `timeout` seconds. Raises KernelLogError."""
        ...

    def close(self) -> None:
        """Release the source."""
        ...


class KmsgReader:
    """Reads /dev/kmsg."""

    def __init__(self, path: Path = DEVICE, *, after: int | None = None) -> None:
        """`after`: sequence number of the last record that was read before, in this boot. Raises KernelLogError."""
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise KernelLogError(f"{path}: {error.strerror}") from error
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLIN)
        self._last = after

    def read(self, timeout: float) -> Batch:
        """Return what is new; wait for it at most `timeout` seconds. Raises KernelLogError."""
        self._poll.poll(timeout * 1000)
        batch = Batch([])
        while len(batch.records) < _MOST:
            try:
                data = os.read(self._file, _RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:
                    continue  # overwritten: the next read returns the oldest record, whose number tells how many are lost
                raise KernelLogError(f"{DEVICE}: {error.strerror}") from error
            batch = self._with(batch, data)
        return batch

    def _with(self, batch: Batch, data: bytes) -> Batch:
        try:
            record = parse(data)
        except RecordError:
            return batch._replace(lost=batch.lost + 1)
        if self._last is not None and record.sequence <= self._last:
            return batch
        lost = 0 if self._last is None else record.sequence - self._last - 1
        self._last = record.sequence
        batch.records.append(record)
        return batch._replace(lost=batch.lost + lost)

    def close(self) -> None:
        """Close the device."""
        os.close(self._file)


class FileReader:
    """Reads a file with records as in /dev/kmsg, one a line, to which lines are appended."""

    def __init__(self, path: Path, *, after: int | None = None) -> None:
        """`after`: sequence number of the last record that was read before."""
        self._path = path
        self._last = -1 if after is None else after
        self._offset = 0

    def read(self, timeout: float) -> Batch:
        """Return what is new; wait for it at most `timeout` seconds. Raises KernelLogError."""
        end = time.monotonic() + timeout
        while not (batch := self._new()).records and time.monotonic() < end:
            time.sleep(min(_PAUSE / 4, timeout))
        return batch

    def _new(self) -> Batch:
        try:
            with self._path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                data = file.read(_MOST * 256)
        except FileNotFoundError:
            return Batch([])
        except OSError as error:
            raise KernelLogError(f"{self._path}: {error.strerror}") from error
        whole = data.rfind(b"\n") + 1 or (len(data) if len(data) == _MOST * 256 else 0)
        self._offset += whole
        records, lost = [], 0
        for line in data[:whole].split(b"\n"):
            if not line or line.startswith(b" "):
                continue  # a blank begins a line about the record before: the device's name and the like
            try:
                record = parse(line)
            except RecordError:
                lost += 1
                continue
            if record.sequence > self._last:
                self._last = record.sequence
                records.append(record)
        return Batch(records, lost)

    def close(self) -> None:
        """Do nothing: the file is opened for each read."""


Klogctl = Callable[[int, int], bytes | int]
"""syslog(2): action and size of the buffer, to the buffer's content, or the result of an action without one."""


def klogctl(action: int, size: int) -> bytes | int:
    """Call syslog(2). Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(size) if size else None
    result = library.klogctl(action, buffer, size)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result if buffer is None else buffer.raw[:result]


class SyslogReader:
    """Reads the whole log by syslog(2), which needs no device, and returns what was appended since.

    syslog(2) has no way to wait and no sequence numbers: the log's end is read five times a second, and the place found again by
    the last bytes that were read.
    """

    def __init__(self, *, after_microseconds: int | None = None, call: Klogctl = klogctl) -> None:
        """`after_microseconds`: the time of the last record that was read before, in this boot. Raises KernelLogError."""
        self._call = call
        self._after = after_microseconds
        self._seen: bytes | None = None
        self._size = min(int(self._checked(_SIZE, 0)), _LARGEST_DUMP)

    def read(self, timeout: float) -> Batch:
        """Return what is new; wait for it at most `timeout` seconds. Raises KernelLogError."""
        end = time.monotonic() + timeout
        while not (batch := self._new()).records and time.monotonic() < end:
            time.sleep(min(_PAUSE, timeout))
        return batch

    def _new(self) -> Batch:
        data, lost = self._appended()
        records = list(parse_dump(data))
        if self._after is not None:
            records = [record for record in records if record.microseconds > self._after]
            self._after = None
        return Batch(records, lost)

    def _appended(self) -> tuple[bytes, int]:
        """Return what was appended, and 1 if the place was overwritten since. A short read of the log's end suffices mostly."""
        size = self._size if self._seen is None else min(4 * _TAIL, self._size)
        while True:
            data = self._checked(_READ_ALL, size)
            assert isinstance(data, bytes)
            seen, place = self._seen, -1 if not self._seen else data.rfind(self._seen)
            if place >= 0 or size == self._size:
                break
            size = min(4 * size, self._size)
        self._seen = data[-_TAIL:]
        if not seen:
            return data, 0
        return (data[place + len(seen) :], 0) if place >= 0 else (data, 1)

    def _checked(self, action: int, size: int) -> bytes | int:
        try:
            return self._call(action, size)
        except OSError as error:
            raise KernelLogError(
                f"syslog(2): {error.strerror}; it needs the capability SYSLOG, or the sysctl kernel.dmesg_restrict=0"
            ) from error

    def close(self) -> None:
        """Do nothing."""


class Position(NamedTuple):
    """The last record that was read: valid within one boot."""

    boot_id: str
    sequence: int
    microseconds: int


def open_reader(source: Path | None, after: Position | None) -> Reader:
    """Return a reader of a file or device; of /dev/kmsg if it can be opened, else by syslog(2), if there is no `source`.

    Raises KernelLogError.
    """
    sequence = after.sequence if after else None
    if source is not None and not _is_device(source):
        return FileReader(source, after=sequence)
    try:
        return KmsgReader(source or DEVICE, after=sequence)
    except KernelLogError as error:
        if source is not None:
            raise
        try:
            return SyslogReader(after_microseconds=after.microseconds if after else None)
        except KernelLogError as other:
            raise KernelLogError(f"{error}; {other}") from other


def _is_device(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISCHR(path.stat().st_mode)
    return False


class PacedReader:
    """Reads at most `per_second` records a second: what comes faster stays in the kernel's buffer, or is lost and counted there."""

    def __init__(
        self,
        reader: Reader,
        per_second: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._reader = reader
        self._rate = per_second
        self._clock = clock
        self._sleep = sleep
        self._free_at = 0.0

    def read(self, timeout: float) -> Batch:
        """Return what is new; wait for it at most `timeout` seconds, and longer after many records. Raises KernelLogError."""
        if (wait := self._free_at - self._clock()) > 0:
            self._sleep(wait)
        begin = self._clock()
        batch = self._reader.read(timeout)
        self._free_at = begin + len(batch.records) / self._rate
        return batch

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()


def boot_id(procfs: Path) -> str:
    """Return the id of the machine's boot, which a restart changes. Raises KernelLogError."""
    path = procfs / "sys/kernel/random/boot_id"
    try:
        return path.read_text().strip()
    except OSError as error:
        raise KernelLogError(f"{path}: {error.strerror}") from error
