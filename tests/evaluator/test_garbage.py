"""No request waits for a walk through all objects."""

import gc
import subprocess
import sys

from evaluator.garbage import Settled

CHURN = """
import gc
from evaluator import garbage
{call}
before = gc.get_stats()
kept = []
for number in range(1_000_000):
    kept.append([number])  # what lives on is what sets off full collections
after = gc.get_stats()
print(*(b["collections"] - a["collections"] for a, b in zip(before, after)))
"""


def collections(call):
    """How often each generation was collected while a million objects came."""
    script = [sys.executable, "-P", "-c", CHURN.format(call=call)]
    told = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    return [int(number) for number in told.split()]


def test_growth_sets_off_no_full_collection():
    young, middle, full = collections("garbage.collect_seldom()")
    assert young > 0
    assert middle > 0
    assert full == 0
    assert collections("")[2] > 0, "which is what Python does by default"


def test_what_is_known_is_settled_once_and_not_before_the_program_is_ready():
    ready, done = [False], []
    settled = Settled(lambda: ready[0], lambda: done.append(True))
    settled.look()
    assert not done
    ready[0] = True
    settled.look()
    settled.look()
    assert done == [True]


def test_the_collector_does_not_look_at_it_any_more():
    stays = [[] for _ in range(1000)]
    try:
        before = gc.get_freeze_count()
        Settled(lambda: True).look()
        assert gc.get_freeze_count() >= before + len(stays)
        assert not any(found is stays for found in gc.get_objects())
    finally:
        gc.unfreeze()
