"""A follower writes no status, and a new leader writes each."""

import asyncio
from types import SimpleNamespace

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.types import Policy
from evaluator.features.status.controller import StatusController

KEY = PolicyKey("default", "demo")
OBJECT = {"metadata": {"namespace": "default", "name": "demo", "resourceVersion": "1"}, "spec": {}}


async def some_turns():
    """Event loop iterations: enough for a write to be sent."""
    for _ in range(50):
        await asyncio.sleep(0.001)


class Follower:
    """A replica that leads on request, with a decision on one policy."""

    def __init__(self, kube):
        self.leading = False
        decided = SimpleNamespace(
            latest=Decisions(policies={KEY: Decision(Policy(KEY))}), waiting_for=[]
        )
        self.reporter = StatusController(kube, decided, is_leader=lambda: self.leading, pause=0.001)


async def test_follower_writes_no_status_and_a_new_leader_writes_each(
    stub_server, answer, connect, background
):
    stub_server.otherwise(answer.says(200, OBJECT))
    follower = Follower(await connect(stub_server.url))
    background(follower.reporter.run())
    follower.reporter.wake()
    await some_turns()
    assert stub_server.asked == []
    for term in (1, 2):  # another replica may have replaced what it wrote in its first term
        follower.leading = True
        follower.reporter.start_over()
        assert (await stub_server.until(term))[-1].path.endswith("/taspolicies/demo/status")
        follower.leading = False
        follower.reporter.wake()
        await some_turns()
    assert len(stub_server.asked) == 2
