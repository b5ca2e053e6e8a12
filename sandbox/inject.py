"""Lets a simulated node fail: writes what the kernel writes into its log, and changes what files and driver report. Repairs it."""

import fcntl
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from plimsoll.kernellog.records import Record, RecordError, encode, parse
from sandbox.machine import DIMM, DISK, GPUS, LINK, Machine

_TAIL = 64 << 10
_ERROR, _CRITICAL, _INFO = 3, 2, 6
RECOVERY_ACTIONS = {48: 1, 64: 1, 79: 2, 95: 1, 119: 1, 120: 1}
"""What the driver says must be done after an XID error: 1 a reset of the GPU, 2 a reboot; of other codes nothing, 0."""


class InjectError(Exception):
    """The fault cannot be injected or repaired; the text is for the user."""


Lines = Sequence[tuple[int, str]]
"""Priorities and texts."""
Arguments = Sequence[str]


class Fault(NamedTuple):
    """What a fault does."""

    begin: Callable[[Machine, Arguments], Lines]
    """Changes the machine, and returns what the kernel logs. Raises InjectError."""
    end: Callable[[Machine, Arguments], Lines] | None = None
    """Repairs the machine likewise; None if only a reboot or an acknowledgement ends the fault."""


def _number(name: str, arguments: Arguments, default: str) -> int:
    text = arguments[0] if arguments else default
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise InjectError(f"{name} takes a number, such as {default}, not {text[:20]!r}")
    return int(text)


def _gpu(arguments: Arguments) -> str:
    return arguments[1] if len(arguments) > 1 else GPUS[0]


def _xid(machine: Machine, arguments: Arguments) -> Lines:
    code, pci = _number("xid", arguments, "79"), _gpu(arguments)
    machine.report_xid(pci, code, RECOVERY_ACTIONS.get(code, 0))
    text = {79: "GPU has fallen off the bus.", 48: "An uncorrectable double bit error (DBE) has been detected"}  # fmt: skip
    return [(_ERROR, f"NVRM: Xid (PCI:{pci}): {code}, pid='<unknown>', name=<unknown>, {text.get(code, 'error')}")]  # fmt: skip


def _reset(machine: Machine, arguments: Arguments) -> Lines:
    machine.reset_gpu(_gpu(arguments))
    return []


def _oops(machine: Machine, _: Arguments) -> Lines:
    machine.count_oops()
    return [
        (_CRITICAL, "BUG: kernel NULL pointer dereference, address: 0000000000000008"),
        (_CRITICAL, "Oops: 0000 [#1] PREEMPT SMP NOPTI"),
    ]


def _ext4(machine: Machine, _: Arguments) -> Lines:
    machine.record_file_system_error()
    return [(_ERROR, f"EXT4-fs error (device {DISK}): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0")]  # fmt: skip


def _fsck(machine: Machine, _: Arguments) -> Lines:
    machine.check_file_system()
    return []


def _read_only(machine: Machine, _: Arguments) -> Lines:
    machine.mount(read_only=True)
    return [(_ERROR, f"EXT4-fs ({DISK}): Remounting filesystem read-only")]


def _writable(machine: Machine, _: Arguments) -> Lines:
    machine.mount(read_only=False)
    return []


def _dimm(machine: Machine, arguments: Arguments) -> Lines:
    count = _number("dimm", arguments, "1")
    machine.correct_memory_errors(count)
    return [(_ERROR, f"EDAC MC0: {count} CE memory read error on {DIMM}")]


def _replaced(machine: Machine, _: Arguments) -> Lines:
    machine.replace_dimm()
    return []


def _link(machine: Machine, arguments: Arguments) -> Lines:
    if arguments not in ([], ["down"]):
        raise InjectError(f"link takes `down`, or nothing for a flap, not {arguments[0][:20]!r}")
    machine.change_link(up=False)
    down = (_INFO, f"mlx5_core 0000:17:00.0 {LINK}: Link down")
    return [down] if arguments else [down, *_link_up(machine, ())]


def _link_up(machine: Machine, _: Arguments) -> Lines:
    machine.change_link(up=True)
    return [(_INFO, f"mlx5_core 0000:17:00.0 {LINK}: Link up")]


def _hung(_machine: Machine, _: Arguments) -> Lines:
    return [(_ERROR, "INFO: task containerd:2341 blocked for more than 120 seconds.")]


FAULTS: Mapping[str, Fault] = {
    "xid": Fault(_xid, _reset),
    "oops": Fault(_oops),
    "ext4": Fault(_ext4, _fsck),
    "read-only": Fault(_read_only, _writable),
    "dimm": Fault(_dimm, _replaced),
    "link": Fault(_link, _link_up),
    "hung": Fault(_hung),
}
"""What can be injected, by name."""


def kernel_log(folder: Path, node: str) -> Path:
    """Return the file that a node's agent reads as the kernel's log."""
    return folder / node / "kmsg"


def inject(folder: Path, node: str, fault: str, arguments: Arguments = ()) -> list[str]:
    """Let a node of a sandbox have a fault; return what its kernel logs. Raises InjectError."""
    found = _fault(folder, node, fault)
    return _log(kernel_log(folder, node), found.begin(Machine(folder / node), list(arguments)))


def repair(folder: Path, node: str, fault: str, arguments: Arguments = ()) -> list[str]:
    """End a fault of a node of a sandbox; return what its kernel logs. Raises InjectError."""
    if (end := _fault(folder, node, fault).end) is None:
        raise InjectError(
            f"{fault} leaves no state to repair: a reboot ends it, or `kubectl plimsoll ack node/{node} CONDITION`"
        )
    return _log(kernel_log(folder, node), end(Machine(folder / node), list(arguments)))


def _fault(folder: Path, node: str, fault: str) -> Fault:
    if (found := FAULTS.get(fault)) is None:
        raise InjectError(f"no fault {fault[:40]!r}: {', '.join(FAULTS)}")
    if not kernel_log(folder, node).exists():
        raise InjectError(f"no kernel log of node {node}: is a sandbox running in {folder}?")
    return found


def _log(path: Path, lines: Lines) -> list[str]:
    """Append records to a kernel's log; return their texts."""
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
