"""Python's search for garbage in cycles: often among what is young, seldom among all there is. Nobody is answered meanwhile.

A full collection walks every object that can be in a cycle. With 5,000 agents connected these are half a million, many of
them coroutines, and it takes 350 ms; by Python's defaults there is one every few seconds while readings change, since what
is decided anew counts as growth. What is in cycles for long is little: of each stream that ended, five small objects. What
is young is another matter: a TLS connection that broke holds its socket until it is found, or for the half minute after
which asyncio gives up on its farewell.
"""

import gc

_YOUNG = 700
"""New objects that set off a collection of just these; Python's default."""
_MIDDLE = 5
"""Such collections before one of what they left, too: half of what is Python's default."""
_FULL = 20_000
"""Of those before a full one: hours, so that what ended streams leave is some megabytes at most."""


def collect_seldom() -> None:
    """Once all modules are imported: they will never be garbage, and what comes is seldom looked at as a whole."""
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)
