"""File descriptors: each connection takes one, and systems begin a program with 1,024 of them, of which it may ask for more."""

import resource

from plimsoll import logs

log = logs.get(__name__)


def make_room(wanted: int) -> int:
    """Have this process allowed so many open descriptors, or as many as it may have; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    allowed = wanted if hard == unlimited else min(wanted, hard)
    if soft != unlimited and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    return wanted if soft == unlimited else soft


def share(wanted: int, *, reserved: int) -> int:
    """Return how many of `wanted` connections one port may hold so that `reserved` descriptors stay for everything else.

    Raises the process's limit as far as that is needed and allowed. A limit too low for both is halved.
    """
    allowed = make_room(wanted + reserved)
    if allowed >= wanted + reserved:
        return wanted
    found = min(wanted, max(allowed - reserved, allowed // 2))
    log.warning(
        "fewer open files allowed than connections may need",
        allowed=allowed,
        needed=wanted + reserved,
        connections=found,
    )
    return found
