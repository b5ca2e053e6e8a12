"""No request waits for a walk through all objects, where old ones only make room for new ones."""

import subprocess
import sys

CHURN = """
import gc
from collections import deque
from evaluator import garbage
{call}
before = gc.get_stats()
kept = deque(maxlen={most})
for number in range(1_000_000):
    kept.append([number])
after = gc.get_stats()
print(*(b["collections"] - a["collections"] for a, b in zip(before, after)))
"""


def collections(*, most, call="garbage.collect_seldom()"):
    """How often each generation was collected while a million objects came, of which so many were kept."""
    script = [sys.executable, "-P", "-c", CHURN.format(call=call, most=most)]
    told = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    return [int(number) for number in told.split()]


def test_what_takes_the_place_of_something_is_not_looked_at():
    assert collections(most=20_000) == [0, 0, 0]
    assert sum(collections(most=20_000, call="")) > 0, "which is what Python does by default"


def test_growth_is_looked_at_in_large_pieces():
    young, middle, full = collections(most=1_000_000)
    assert 1 <= young <= 20
    assert middle <= 2
    assert full == 0
    assert collections(most=1_000_000, call="")[2] > 0, "which is what Python does by default"
