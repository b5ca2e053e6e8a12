"""The file descriptor limit: each connection takes one, and processes start with a soft limit of 1,024."""

import resource

from plimsoll import logs

log = logs.get(__name__)


def raise_limit(requested: int) -> int:
    """Raise the soft limit to `requested` or the hard limit; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    allowed = requested if hard == unlimited else min(requested, hard)
    if soft != unlimited and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    return requested if soft == unlimited else soft


def share(requested: int, *, reserved: int) -> int:
    """Return how many of `requested` connections one port may hold so that `reserved` descriptors stay for everything else.

    Raises the soft limit as far as needed and permitted. If it is too low for both, the port gets half.
    """
    allowed = raise_limit(requested + reserved)
    if allowed >= requested + reserved:
        return requested
    found = min(requested, max(allowed - reserved, allowed // 2))
    log.warning(
        "fewer open files allowed than connections may need",
        allowed=allowed,
        needed=requested + reserved,
        connections=found,
    )
    return found
