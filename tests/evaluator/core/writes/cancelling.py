"""What every controller's loop does when it is cancelled: it ends."""

import asyncio
from types import SimpleNamespace

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.policy.decide import Decisions
from evaluator.core.writes.node_writer import WriteContext
from plimsoll.ratelimit import TokenBucket
from tests.patience import PATIENCE


def nothing_decided():
    """A decision loop before its first decision."""
    return SimpleNamespace(latest=Decisions(), waiting_for=["everything"])


def context(decided):
    """What a writer of nodes has, without an API server."""
    return WriteContext(
        kube=None, cluster=ClusterCache(), decider=decided, bucket=TokenBucket(1.0, 1)
    )


async def assert_ends_when_cancelled(make):
    """Cancel the loop of a new controller a few turns after a wake-up, which must not swallow it, or shutdown would hang."""
    for turns in range(4):
        controller = make()
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(0)
        controller.wake()
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=PATIENCE)
        assert running.cancelled()
