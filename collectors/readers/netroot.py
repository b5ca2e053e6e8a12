"""Whose network is read: <procfs>/1/net where process 1 is the node's own init, else <procfs>/net, which is self/net.

The kernel shows in `<procfs>/net` the network namespace of whoever looks: the pod's, unless the pod has hostNetwork. What
`<procfs>/1/net` shows is that of process 1: the node's, if process 1 is the node's init and not that of a container. Which of
the two it is, is asked of the kernel, as anybody may, and never guessed from names:

- `NSpid` in `<procfs>/self/status` has this process's number in the PID namespace of that procfs and in each one nested in it,
  down to its own. Two or more numbers: this procfs is of an outer PID namespace. It was mounted into the container from the
  node, and its process 1 is the node's init.
- One number: this procfs is of our own PID namespace. `<procfs>/self/ns/pid` tells if that is the machine's first one, whose
  number is part of the kernel's interface: the agent runs on the bare machine or in a pod with hostPID.
- Else process 1 is that of a container, ours or a neighbour's: `<procfs>/net`.
"""

import os
from functools import lru_cache
from pathlib import Path

from collectors.base import host
from collectors.base.sample import CollectorError
from plimsoll import logs

_FIRST_PID_NAMESPACE = (
    "pid:[4026531836]"  # PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h
)

log = logs.get(__name__)


@lru_cache(maxsize=64)
def directory(machine: host.Host) -> Path:
    """The directory with the network's files. Decided once: none of what it depends on changes while a process runs."""
    own = machine.procfs / "net"
    if not _is_of_the_node(machine.procfs):
        return own
    nodes = machine.procfs / "1/net"
    if not os.access(nodes / "dev", os.R_OK):
        # A procfs that is mounted with hidepid shows other users' processes to nobody but root.
        log.warning("cannot see the network of process 1, reading our own", path=str(nodes))
        return own
    return nodes


def is_own(machine: host.Host) -> bool:
    """Whether the network that is read is the agent's own: the one that netlink, ioctl and sysctl speak of."""
    chosen, own = directory(machine), machine.procfs / "net"
    # The kernel makes these files anew for each network namespace: one inode number, one namespace.
    return chosen == own or _inode(chosen / "dev") == _inode(own / "dev")


def require_own(machine: host.Host) -> None:
    """CollectorError unless the network that is read is the agent's own."""
    if not is_own(machine):
        raise CollectorError("the node's network is another than the agent's: needs hostNetwork")


def _is_of_the_node(procfs: Path) -> bool:
    try:
        numbers = nested_pids(host.read(procfs / "self/status"))
    except CollectorError:
        return False  # no procfs at all, or one that tells nothing
    return numbers > 1 or (numbers == 1 and _pid_namespace(procfs) == _FIRST_PID_NAMESPACE)


def nested_pids(status: str) -> int:
    """How many numbers a process has, out of its <procfs>/<pid>/status; 0 where the kernel does not say (before 4.1)."""
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
