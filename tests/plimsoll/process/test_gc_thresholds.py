"""No request waits for a full garbage collection."""

import gc
import subprocess
import sys

from plimsoll.process.garbage import FreezeWhenReady

CHURN = """
import gc
from plimsoll.process import garbage
{call}
before = gc.get_stats()
kept = []
for number in range(1_000_000):
    kept.append([number])  # what lives on is what sets off full collections
after = gc.get_stats()
print(*(b["collections"] - a["collections"] for a, b in zip(before, after)))
"""


def collections(call):
    """How often each generation was collected during a million allocations."""
    script = [sys.executable, "-P", "-c", CHURN.format(call=call)]
    told = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    return [int(number) for number in told.split()]


def test_growth_triggers_no_full_collection():
    young, middle, full = collections("garbage.raise_thresholds()")
    assert young > 0
    assert middle > 0
    assert full == 0
    assert collections("")[2] > 0, "as Python does by default"


def test_objects_are_frozen_once_and_after_readiness():
    ready, done = [False], []
    settled = FreezeWhenReady(lambda: ready[0], lambda: done.append(True))
    settled.look()
    assert not done
    ready[0] = True
    settled.look()
    settled.look()
    assert done == [True]


def test_frozen_objects_are_not_scanned():
    stays = [[] for _ in range(1000)]
    try:
        before = gc.get_freeze_count()
        FreezeWhenReady(lambda: True).look()
        assert gc.get_freeze_count() >= before + len(stays)
        assert not any(found is stays for found in gc.get_objects())
    finally:
        gc.unfreeze()


def test_no_collection_scans_many_objects_while_serving():
    """Nor when the program becomes ready: a full collection takes 350 ms with 5,000 streams."""
    walked = []

    def note(phase, info):
        walked.append(info["generation"]) if phase == "start" else None

    gc.callbacks.append(note)
    try:
        FreezeWhenReady(lambda: True).look()
    finally:
        gc.callbacks.remove(note)
        gc.unfreeze()
    assert 2 not in walked
    script = "import gc; from plimsoll.process import garbage as g; g.raise_thresholds(); print(*gc.get_threshold())"
    told = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    young, middle, _ = map(int, told.stdout.split())
    assert young * (1 + middle) <= 20_000, "objects that one collection scans, in about 2 ms"
