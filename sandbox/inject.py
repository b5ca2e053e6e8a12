"""Writes into a simulated node's kernel log what the kernel writes about a fault: for tests and game days."""

import fcntl
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from plimsoll.kernellog.records import Record, RecordError, encode, parse

_TAIL = 64 << 10
_ERROR, _CRITICAL, _INFO = 3, 2, 6


class InjectError(Exception):
    """The fault cannot be injected; the text is for the user."""


Lines = Sequence[tuple[int, str]]
"""Priorities and texts."""


def _xid(arguments: Sequence[str]) -> Lines:
    code, pci = (*arguments, "0000:3b:00")[:2] if arguments else ("79", "0000:3b:00")
    if not code.isascii() or not code.isdigit() or len(code) > 4:
        raise InjectError(f"xid takes a code, such as 79, not {code[:20]!r}")
    text = {"79": "GPU has fallen off the bus.", "48": "An uncorrectable double bit error (DBE) has been detected"}  # fmt: skip
    return [(_ERROR, f"NVRM: Xid (PCI:{pci}): {code}, pid='<unknown>', name=<unknown>, {text.get(code, 'error')}")]  # fmt: skip


def _lines(*texts: str, priority: int = _ERROR) -> Callable[[Sequence[str]], Lines]:
    def make(_arguments: Sequence[str]) -> Lines:
        return [(priority, text) for text in texts]

    return make


FAULTS: Mapping[str, Callable[[Sequence[str]], Lines]] = {
    "xid": _xid,
    "oops": _lines(
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "Oops: 0000 [#1] PREEMPT SMP NOPTI",
        priority=_CRITICAL,
    ),
    "ext4": _lines(
        "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0"
    ),
    "read-only": _lines("EXT4-fs (sda1): Remounting filesystem read-only"),
    "dimm": _lines("EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0"),
    "link": _lines(
        "mlx5_core 0000:17:00.0 eth0: Link down", "mlx5_core 0000:17:00.0 eth0: Link up", priority=_INFO
    ),
    "hung": _lines("INFO: task containerd:2341 blocked for more than 120 seconds."),
}  # fmt: skip
"""What can be injected: name to the lines, given further arguments."""


def kernel_log(folder: Path, node: str) -> Path:
    """Return the file that a node's agent reads as the kernel's log."""
    return folder / node / "kmsg"


def inject(folder: Path, node: str, fault: str, arguments: Sequence[str] = ()) -> list[str]:
    """Append a fault's records to the kernel log of a sandbox's node; return their texts. Raises InjectError."""
    path = kernel_log(folder, node)
    if (make := FAULTS.get(fault)) is None:
        raise InjectError(f"no fault {fault[:40]!r}: {', '.join(FAULTS)}")
    if not path.exists():
        raise InjectError(f"no kernel log of node {node}: is a sandbox running in {folder}?")
    lines = make(arguments)
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        number = _next(file.read())
        now = int(time.monotonic() * 1e6)
        file.seek(0, os.SEEK_END)
        for offset, (priority, text) in enumerate(lines):
            file.write(encode(Record(number + offset, now, priority, text)))
    return [text for _, text in lines]


def _next(data: bytes) -> int:
    """Return the number after that of the last record."""
    for line in reversed(data.splitlines()):
        try:
            return parse(line).sequence + 1
        except RecordError:
            continue
    return 1
