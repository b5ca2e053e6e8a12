"""The benchmark of agent streams at a small size, and the simulated agents."""

import shutil

import pytest

from bench import streams
from bench.fleet import Fleet, Habits, names
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.readings.store import Store
from evaluator.core.sources.agents.grpc_port import GrpcPort
from evaluator.core.sources.agents.server import AgentServer, ReportListener
from tests.bench import conftest

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH"),
]

CASES = [
    "storm",
    "at_rest",
    "readings_change",
    "subscription",
    "subscription_beside_a_peer_that_does_not_read",
    "intake",
    "restart",
]


def test_every_case_has_a_line_and_no_agent_is_lost():
    found = conftest.lines_of(streams.__file__, "--agents=20", "--policies=3", "--seconds=1")
    lines = {line["case"]: line for line in found}
    assert list(lines) == CASES
    assert lines["storm"]["met"]
    assert lines["storm"]["descriptors"] > 20
    assert lines["at_rest"]["rss"] > 20
    assert lines["intake"]["reports"] >= 20
    assert lines["intake"]["reports_per_s"] > 0
    assert lines["intake"]["met"]
    told = lines["subscription"]["told"]
    assert 0 < told["p50"] <= told["p99"] <= told["longest"]
    assert lines["restart"]["ready_after"] >= lines["restart"]["listening_after"] > 0


async def test_simulated_agents_answer_subscriptions_and_report_changes(until):
    store, subscriptions = Store(stale_after=30.0, started=0.0), Subscriptions()
    reports = []
    listener = ReportListener()
    listener.reported = reports.append
    agents = AgentServer(store, subscriptions, interval=1.0, listener=listener)
    store.subscribe(["a", "b"])
    subscriptions.want(["a", "b"])
    port = await agents.start(GrpcPort("127.0.0.1:0"))
    nodes = names(6)
    with Fleet(f"127.0.0.1:{port}", nodes, Habits(3600.0, 0.0)) as fleet:
        await fleet.until(connected=6, generation=2)
        assert agents.connected == 6
        await until(lambda: len(reports) == 6)
        assert all(store.reading(metric, node).samples == 1 for metric in "ab" for node in nodes)
        store.subscribe(["a", "b", "c"])
        subscriptions.want(["a", "b", "c"])
        await fleet.until(connected=6, generation=3)
        await until(lambda: len(reports) == 12)
        fleet.habits = Habits(0.05, 1.0)
        await until(lambda: len(reports) > 40)
        assert all(reports[12:]), "each reported a change"
        assert (fleet.losses, fleet.reasons) == (0, {})
    await until(lambda: agents.connected == 0)
    await agents.stop()
