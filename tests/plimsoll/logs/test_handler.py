"""Log lines that cannot be written are dropped, and counted once writing works again."""

import errno
import io
import logging
import os

import pytest

from plimsoll.logs.handler import LineHandler


class Disk(io.RawIOBase):
    """Space for this many bytes."""

    def __init__(self, room):
        self.room = room
        self.written = b""

    def writable(self):
        return True

    def write(self, data):
        count = min(len(data), self.room)
        if not count:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written += bytes(data[:count])
        self.room -= count
        return count


@pytest.fixture
def clock():
    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def log_to(clock):
    """Return a logger that writes to a stream."""
    logger = logging.getLogger("plimsoll")
    before = logger.propagate, logger.level, logger.handlers[:]

    def start(stream):
        logger.propagate, logger.handlers[:] = False, [LineHandler(stream, clock=clock)]
        logger.setLevel("WARNING")  # another test sets the level of the root logger
        return logger

    yield start
    logger.propagate, logger.level, logger.handlers[:] = before


def test_lines_lost_on_a_full_disk_are_counted_afterwards(log_to, clock, capfd):
    disk = Disk(room=12)
    log = log_to(io.TextIOWrapper(disk, write_through=True))
    for number in range(5):
        log.warning("line %s", number)
        clock.now += 2
    assert disk.written == b"line 0\nline "
    disk.room = 1000
    log.warning("room again")
    assert disk.written.splitlines() == [
        b"line 0",
        b"line ",  # the truncated line stays separate
        b"room again",
        b"4 log lines could not be written",
    ]
    assert capfd.readouterr() == ("", "")


def test_failed_write_is_not_retried_at_once(log_to, clock):

    disk = Disk(room=0)
    log = log_to(io.TextIOWrapper(disk, write_through=True))
    log.warning("lost")
    disk.room = 1000
    for _ in range(100):
        log.warning("lost too")
    assert disk.written == b""
    clock.now += 1
    log.warning("there")
    assert disk.written == b"there\n101 log lines could not be written\n"


def test_closed_reader_loses_lines_only(log_to, clock, capfd):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:  # noqa: PTH123 (a descriptor)
        log = log_to(stream)
        for _ in range(3):
            log.warning("lost")
            clock.now += 2
    log.warning("and after the end as well")
    assert capfd.readouterr() == ("", "")


def test_reader_that_does_not_read_is_not_waited_for(log_to, clock):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with open(writer, "w") as stream:  # noqa: PTH123 (a descriptor)
        log = log_to(stream)
        for _ in range(100):
            log.warning("x" * 4000)
            clock.now += 2
        while len(os.read(reader, 1 << 20)) == 1 << 16:
            pass
        clock.now += 2
        log.warning("read again")
        assert b"read again\n" in os.read(reader, 1 << 20)
    os.close(reader)


def test_any_text_is_one_line_of_bytes(log_to):
    disk = Disk(room=1000)
    log_to(io.TextIOWrapper(disk, write_through=True)).warning("%s", "\ud800é")
    assert disk.written == "\\ud800é\n".encode()
