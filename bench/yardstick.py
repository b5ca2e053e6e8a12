"""A fixed amount of work, to compare figures between machines.

A `loop` is work like the evaluator's: lookups in dicts, short strings, JSON and comparisons of arrays. It takes a
millisecond of CPU time on an idle core of the machine behind docs/performance.md, so an aim of 10 loops is 10 ms there and
30 ms on a core a third as fast.
"""

import json
import statistics
import time

import numpy as np

LOOPS = 5
"""Loops per measurement; their median counts."""

_NAMES = [f"node-{number}" for number in range(300)]
_BY_NAME = {name: float(index) for index, name in enumerate(_NAMES)}
_COLUMN = np.arange(5000.0)


def loop() -> None:
    """Do the work once."""
    for _ in range(8):
        kept = {name: value for name, value in _BY_NAME.items() if _BY_NAME[name[:7]] < 1e3}
        text = json.dumps([f"{name}={value:.0f}" for name, value in kept.items()])
        assert len(json.loads(text)) == len(_NAMES)
        for limit in range(6):
            np.flatnonzero(limit * 100 < _COLUMN)


def loop_ms() -> float:
    """Return the CPU time of a loop in ms, now."""
    times = []
    for _ in range(LOOPS):
        begin = time.thread_time()
        loop()
        times.append(time.thread_time() - begin)
    return statistics.median(times) * 1000
