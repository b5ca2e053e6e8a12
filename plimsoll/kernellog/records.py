"""Records of the kernel's log as /dev/kmsg and syslog(2) return them.

Formats: the kernel's Documentation/ABI/testing/dev-kmsg, and printk_time and printk_caller in kernel/printk/printk.c. The kernel
writes control characters and bytes beyond ASCII as \\xNN in /dev/kmsg, so no text can look like another record.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 1024
"""Bytes of a record's text that are kept; the kernel's own limit is about as high."""
_NUMBER = rb"[0-9]{1,19}"
_RECORD = re.compile(rb"(%b),(%b),(%b),[^;]*;(.*)" % ((_NUMBER,) * 3), re.DOTALL)
_PREFIX = re.compile(rb"<([0-9]{1,4})>(?:\[ *([0-9]{1,12})\.([0-9]{6})\](?:\[ *[TC][0-9]+\])? )?")
_FACILITY_BITS = 3


class RecordError(ValueError):
    """Bytes that are no record of the kernel's log."""


class Record(NamedTuple):
    """A record of the kernel's log."""

    sequence: int
    """Counts the records since boot; 0 from syslog(2), which has no numbers."""
    microseconds: int
    """Since boot, by the kernel's own clock, which may stand still while the machine is suspended."""
    priority: int
    text: str
    """At most LONGEST characters, without line breaks."""

    @property
    def of_kernel(self) -> bool:
        """Whether the kernel itself wrote the record: those that programs write to /dev/kmsg have another facility."""
        return self.priority >> _FACILITY_BITS == 0


def parse(data: bytes) -> Record:
    """Parse a record as read from /dev/kmsg: `priority,sequence,microseconds,flags;text` and further lines, which are ignored.

    Raises RecordError.
    """
    found = _RECORD.fullmatch(data.partition(b"\n")[0])
    if found is None:
        raise RecordError(f"no record of the kernel's log: {data[:80]!r}")
    priority, sequence, microseconds, text = found.groups()
    return Record(int(sequence), int(microseconds), int(priority), _text(text))


def encode(record: Record) -> bytes:
    """Return a record as /dev/kmsg returns it, with a line break."""
    head = f"{record.priority},{record.sequence},{record.microseconds},-;"
    return head.encode() + record.text.encode(errors="replace") + b"\n"


def parse_dump(data: bytes) -> Iterator[Record]:
    """Yield the records of what syslog(2) returns: `<priority>[seconds.micros] text`, a line each.

    Lines without a prefix (the beginning may be cut off) are skipped; without times (printk.time=0), microseconds are 0.
    """
    for line in data.split(b"\n"):
        if (found := _PREFIX.match(line)) is not None:
            priority, seconds, micros = found.groups()
            at = int(seconds) * 1_000_000 + int(micros) if seconds else 0
            yield Record(0, at, int(priority), _text(line[found.end() :]))


def _text(raw: bytes) -> str:
    return raw[:LONGEST].decode("utf-8", "replace")
