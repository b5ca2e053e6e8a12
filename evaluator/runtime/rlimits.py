"""The file descriptor limit: each connection takes one, and processes start with a soft limit of 1,024."""

import resource

from plimsoll import logs

log = logs.get(__name__)


def make_room(wanted: int) -> int:
    """Raise the soft limit to `wanted` or the hard limit; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    allowed = wanted if hard == unlimited else min(wanted, hard)
    if soft != unlimited and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    return wanted if soft == unlimited else soft


def share(wanted: int, *, reserved: int) -> int:
    """Return how many of `wanted` connections one port may hold so that `reserved` descriptors stay for everything else.

    Raises the soft limit as far as needed and permitted. If it is too low for both, the port gets half.
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
