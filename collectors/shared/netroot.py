"""Selects the network namespace to read: <procfs>/1/net if process 1 is the node's init, else <procfs>/net (self/net).

`<procfs>/net` shows the network namespace of the reader: the pod's, unless it has hostNetwork. `<procfs>/1/net` shows that of
process 1: the node's, if process 1 is the node's init and not a container's. The kernel tells which it is:

- `NSpid` in `<procfs>/self/status` has this process's number in the PID namespace of that procfs and in each nested one, down to
  its own. Two or more numbers: this procfs belongs to an outer PID namespace. It was mounted into the container from the
  node, and its process 1 is the node's init.
- One number: this procfs belongs to our own PID namespace. `<procfs>/self/ns/pid` shows whether that is the machine's initial one,
  whose number is part of the kernel's interface: the agent runs on the host or in a pod with hostPID.
- Otherwise process 1 is that of a container: `<procfs>/net`.
"""

import os
from functools import lru_cache
from pathlib import Path

from collectors.interface import host
from collectors.interface.sample import CollectorError
from plimsoll import logs

_FIRST_PID_NAMESPACE = (
    "pid:[4026531836]"  # PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h
)

log = logs.get(__name__)


@lru_cache(maxsize=64)
def directory(machine: host.Host) -> Path:
    """Return the directory of the network's files. Decided once, because it cannot change while the process runs."""
    own = machine.procfs / "net"
    if not _is_of_the_node(machine.procfs):
        return own
    nodes = machine.procfs / "1/net"
    if not os.access(nodes / "dev", os.R_OK):
        # A procfs mounted with hidepid hides other users' processes from all but root.
        log.warning("cannot see the network of process 1, reading our own", path=str(nodes))
        return own
    return nodes


def is_own(machine: host.Host) -> bool:
    """Return whether the network read is the agent's own, which netlink, ioctl and sysctl refer to."""
    chosen, own = directory(machine), machine.procfs / "net"
    # These files exist per network namespace: equal inode numbers mean the same namespace.
    return chosen == own or _inode(chosen / "dev") == _inode(own / "dev")


def require_own(machine: host.Host) -> None:
    """Raise CollectorError unless the network read is the agent's own."""
    if not is_own(machine):
        raise CollectorError("the agent is not in the node's network namespace: set hostNetwork")


def _is_of_the_node(procfs: Path) -> bool:
    try:
        numbers = nested_pids(host.read(procfs / "self/status"))
    except CollectorError:
        return False  # no procfs, or one without this information
    return numbers > 1 or (numbers == 1 and _pid_namespace(procfs) == _FIRST_PID_NAMESPACE)


def nested_pids(status: str) -> int:
    """Return how many PIDs a process has, from its <procfs>/<pid>/status; 0 if the kernel does not report it (before 4.1)."""
    for line in status.splitlines():
        key, _, numbers = line.partition(":")
        if key == "NSpid":
            return len(numbers.split())
    return 0


def _pid_namespace(procfs: Path) -> str:
    try:
        return os.readlink(procfs / "self/ns/pid")  # noqa: PTH115 (it is a name, not a path)
    except OSError:
        return ""


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
