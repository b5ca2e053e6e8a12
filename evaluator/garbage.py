"""Python's search for garbage in cycles, made rare: nobody is answered while it runs.

A collection walks every object that came since the one before, or every object there is. With 5,000 agents connected these
are half a million, many of them coroutines, and the whole walk takes 350 ms. Agents that report put new objects in the place
of old ones all the time, so what is "young" is soon tens of thousands of objects, none of them garbage: by Python's
defaults that is a pause of 10 to 40 ms every few seconds, and a whole walk twice a minute. What is in cycles here is little:
of each stream that ended, five small objects.
"""

import gc

_GROWTH = 50_000
"""So many more objects than before set off a collection of those that came: as many as 550 agents are, or 10 MB."""
_MIDDLE = 10
"""Such collections before one of what they left, too; Python's default."""
_FULL = 10
"""Of those before a full one; Python's default."""


def collect_seldom() -> None:
    """Once all modules are imported: they will never be garbage, and what comes is only looked at where it becomes more."""
    gc.freeze()
    gc.set_threshold(_GROWTH, _MIDDLE, _FULL)
