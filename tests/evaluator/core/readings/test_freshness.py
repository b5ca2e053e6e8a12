"""One function decides which readings are fresh, so all that read them agree at the exact moment."""

import ast
from pathlib import Path

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from evaluator.core.readings import column
from evaluator.core.readings.column import NEVER, Reading, is_fresh
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.reported import FailingRuleIndex
from evaluator.core.readings.store import Store
from lab.replay.grid import RecordedReadings, Rows
from wire.codec import Delta

ROOT = Path(__file__).parents[4]
NODES = ("a",)
seconds = st.floats(0.0, 2e9)


def test_reading_is_fresh_until_it_is_older_than_stale_after():
    assert is_fresh(70.0, 100.0, 30.0)
    assert not is_fresh(69.9, 100.0, 30.0)
    assert not is_fresh(NEVER, 100.0, 30.0)
    moments = np.array([[100.0], [101.0]])
    assert is_fresh(np.array([70.0, 71.0]), moments, 30.0).tolist() == [[True, True], [False, True]]


@example(at=13436.4, stale_after=254.2, ulps=0)  # now - at is more than stale_after by rounding
@given(at=seconds, stale_after=st.floats(0.001, 1e4), ulps=st.integers(-2, 2))
def test_all_readers_agree_at_the_moment_a_reading_becomes_stale(at, stale_after, ulps):
    now = at + stale_after
    for _ in range(abs(ulps)):
        now = np.nextafter(now, np.inf if ulps > 0 else -np.inf)
    now = max(float(now), at)
    fresh = is_fresh(at, now, stale_after)

    store = Store(stale_after=stale_after, started=at)
    store.subscribe(["m"])
    store.report("a", Delta({"m": 1.0}, [], {}), at)
    assert store.column("m", NODES, now).fresh.tolist() == [fresh]

    polled = PolledReadings("prometheus", stale_after=stale_after, started=at)
    polled.subscribe(["m"])
    polled.answer("m", {"a": Reading(1, 1.0, at)}, at)
    assert polled.column("m", NODES, now).fresh.tolist() == [fresh]

    rows = {"m": Rows(np.ones((1, 1)), np.ones((1, 1), np.int32), np.full((1, 1), at))}
    recorded = RecordedReadings(rows, 0, stale_after=stale_after, expected_until=0.0)
    assert recorded.column("m", NODES, now).fresh.tolist() == [fresh]

    failing = FailingRuleIndex(store.reported_at, stale_after=stale_after)
    assert (failing.age("a", now) is not None) == fresh


def test_no_other_module_compares_times_with_stale_after():
    modules = [path for package in ("evaluator", "lab") for path in (ROOT / package).rglob("*.py")]
    assert [p for p in modules if decides_freshness(p)] == [Path(column.__file__)]


def decides_freshness(path):
    """Whether a comparison, or a name compared later, is a time minus `stale_after`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare | ast.Assign | ast.Subscript):
            for part in ast.walk(node):
                if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub):
                    subtracted = ast.unparse(part.right).rpartition(".")[2].strip("_")
                    minuend = ast.unparse(part.left).rpartition(".")[2].strip("_")
                    if subtracted == "stale_after" and minuend != "grace":
                        return True
    return False
