"""A process suspended for longer than the stale time, by a signal or a migration."""

import os
import signal

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.features("pages")]

SHORT = ("--staleAfter=4s", "--syncPeriod=1s")


async def test_suspended_evaluator_decides_nothing_until_reports_arrive(start_world):
    """Requests that arrived meanwhile are answered first, and reports are read after them."""
    world = await start_world(SHORT)
    [evaluator] = world.evaluators
    before = {node: len(seen) for node, seen in world.labels.history.items()}
    os.kill(evaluator.pid, signal.SIGSTOP)
    await world.eventually(lambda: evaluator.silence > 6)
    evaluator.may_refuse = True
    os.kill(evaluator.pid, signal.SIGCONT)
    await world.answered(50)
    await world.agrees()
    assert not evaluator.wrong
    assert {node: len(seen) for node, seen in world.labels.history.items()} == before
