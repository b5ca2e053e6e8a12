"""Room for sockets: a connection is a file descriptor, and systems begin a program with 1,024 of them, of which it may ask for more."""

import resource

from plimsoll import logs

log = logs.get(__name__)


def make_room(wanted: int) -> int:
    """Have this process allowed so many open descriptors, or as many as it may have; returns how many, and warns if fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    allowed = wanted if hard == unlimited else min(wanted, hard)
    if soft != unlimited and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if soft != unlimited and soft < wanted:
        log.warning(
            "fewer open files allowed than connections may need", allowed=soft, needed=wanted
        )
    return wanted if soft == unlimited else soft
