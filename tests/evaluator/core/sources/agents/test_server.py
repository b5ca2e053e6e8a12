"""The agents' streams over real gRPC, with a scripted client."""

import asyncio
import contextlib
import gc

import grpc
import pytest

from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.readings.store import Store
from evaluator.core.signals import AgentReported, FailingRulesReported, Signals, on
from evaluator.core.sources.agents.calls import Code
from evaluator.core.sources.agents.grpc_port import GrpcCall, GrpcPort
from evaluator.core.sources.agents.limits import AgentLimits
from evaluator.core.sources.agents.server import AgentServer
from tests.clock import Clock
from tests.patience import PATIENCE
from wire import telemetry_pb2, telemetry_pb2_grpc

INVALID = grpc.StatusCode.INVALID_ARGUMENT


class Evaluator:
    """The evaluator's agent server, with recorded reports."""

    def __init__(self, **limits):
        self.clock = Clock()
        self.store = Store(stale_after=30.0, started=self.clock())
        self.subscriptions = Subscriptions()
        self.reports = []
        self.failing = {}
        self._told = asyncio.Condition()
        signals = Signals()
        signals.connect(
            [on(AgentReported, self.reported), on(FailingRulesReported, self.failing_reported)]
        )
        self.agents = AgentServer(
            self.store,
            self.subscriptions,
            interval=2.5,
            publish=signals.publish,
            limits=AgentLimits(**limits),
            clock=self.clock,
        )
        self.port = 0

    def want(self, *metrics):
        self.store.subscribe(metrics)
        self.subscriptions.want(metrics)

    def failing_reported(self, report):
        self.failing[report.node] = report.rules

    def reported(self, report):
        self.reports.append(report.changed)
        self._task = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self):
        async with self._told:
            self._told.notify_all()

    async def heard(self, count):
        async with asyncio.timeout(PATIENCE), self._told:
            await self._told.wait_for(lambda: len(self.reports) >= count)


class Agent:
    """One stream, message by message."""

    def __init__(self, stream, node):
        self.stream = stream
        self.node = node

    async def say(self, **fields):
        await self.stream.write(
            telemetry_pb2.Report(**{"node_name": self.node, "agent_version": "1", **fields})
        )

    async def hear(self):
        async with asyncio.timeout(PATIENCE):
            return await self.stream.read()

    async def introduced(self):
        await self.say()
        return await self.hear()

    async def ended(self):
        """The status with which the evaluator ended the stream."""
        async with asyncio.timeout(PATIENCE):
            return await self.stream.code(), await self.stream.details()


@pytest.fixture
async def evaluator():
    made = Evaluator()
    made.port = await made.agents.start(GrpcPort("127.0.0.1:0"))
    yield made
    await made.agents.stop()


@pytest.fixture
async def agent(evaluator):
    async with contextlib.AsyncExitStack() as stack:

        async def connect(node="node-a"):
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{evaluator.port}")
            await stack.enter_async_context(channel)
            return Agent(telemetry_pb2_grpc.TelemetryStub(channel).Stream(), node)

        yield connect


def several(index, samples):
    return telemetry_pb2.Several(index=index, samples=samples)


async def test_agent_receives_the_subscription_after_its_first_report(evaluator, agent):
    evaluator.want("cpu", "mem")
    subscription = await (await agent()).introduced()
    assert subscription.generation == 2
    assert list(subscription.metrics) == ["cpu", "mem"]
    assert subscription.interval_ms == 2500


async def test_empty_subscription_is_sent_too(agent):
    subscription = await (await agent()).introduced()
    assert (subscription.generation, list(subscription.metrics)) == (1, [])


async def test_full_report_and_changes_reach_the_store(evaluator, agent):
    evaluator.want("a", "b", "c", "d")
    node = await agent()
    await node.introduced()
    await node.say(
        generation=2, full=True, indices=[0], values=[1.5], several=[several(1, 3)], unread=[2]
    )
    await evaluator.heard(1)
    store = evaluator.store
    assert store.reading("a", "node-a") == (1, 1.5, 1000.0)
    assert store.reading("b", "node-a").samples == 3
    assert store.reading("c", "node-a").at == float("-inf")
    assert store.reading("d", "node-a")[::2] == (0, 1000.0)

    evaluator.clock.now += 5
    await node.say(generation=2, indices=[3], values=[4.0], absent=[0], unread=[2])
    await evaluator.heard(2)
    assert store.reading("d", "node-a") == (1, 4.0, 1005.0)
    assert store.reading("a", "node-a")[::2] == (0, 1005.0)
    assert store.reading("b", "node-a")[::2] == (3, 1005.0)


async def test_heartbeat_confirms_and_changes_nothing(evaluator, agent):
    evaluator.want("a")
    node = await agent()
    await node.introduced()
    await node.say(generation=2, full=True, indices=[0], values=[1.0])
    evaluator.clock.now += 5
    await node.say(generation=2)
    await evaluator.heard(2)
    assert evaluator.reports == [True, False]
    assert evaluator.store.reading("a", "node-a").at == 1005.0


async def test_new_subscription_is_sent_at_once_and_answered_in_full(evaluator, agent):
    evaluator.want("a")
    node = await agent()
    await node.introduced()
    await node.say(generation=2, full=True, indices=[0], values=[1.0])
    await evaluator.heard(1)
    evaluator.want("a", "b")
    assert list((await node.hear()).metrics) == ["a", "b"]
    await node.say(generation=3, full=True, indices=[0, 1], values=[1.0, 2.0])
    await evaluator.heard(2)
    assert evaluator.store.reading("b", "node-a").value == 2.0


async def test_reports_in_flight_are_decoded_by_their_subscription(evaluator, agent):
    """Position 0 was `b` when the agent sent it; the list that begins with `a` was still in flight."""
    evaluator.want("b")
    node = await agent()
    await node.introduced()
    await node.say(generation=2, full=True, indices=[0], values=[1.0])
    await evaluator.heard(1)
    evaluator.want("a", "b")
    assert (await node.hear()).generation == 3
    await node.say(generation=2, indices=[0], values=[7.0])
    await evaluator.heard(2)
    assert evaluator.store.reading("b", "node-a").value == 7.0
    assert evaluator.store.reading("a", "node-a").samples == 0


async def test_answered_subscription_replaces_earlier_ones(evaluator, agent):
    evaluator.want("a")
    node = await agent()
    await node.introduced()
    evaluator.want("a", "b")
    await node.hear()
    await node.say(generation=3, full=True)
    await evaluator.heard(1)
    await node.say(generation=2, full=True)
    assert await node.ended() == (INVALID, "generation 2 was never subscribed to")


async def test_each_node_has_its_readings(evaluator, agent):
    evaluator.want("a")
    for number in range(20):
        node = await agent(f"node-{number}")
        await node.introduced()
        await node.say(generation=2, full=True, indices=[0], values=[float(number)])
    await evaluator.heard(20)
    assert evaluator.agents.connected == 20
    found = [evaluator.store.reading("a", f"node-{number}").value for number in range(20)]
    assert found == list(map(float, range(20)))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"generation": 9, "full": True}, "generation 9 was never subscribed to"),
        ({"full": True}, "generation 0 was never subscribed to"),
        ({"node_name": "node-b", "generation": 2}, "this stream is for node node-a, not node-b"),
        ({"node_name": "", "generation": 2}, "node-a, not one without a name"),
        ({"generation": 2, "full": True, "indices": [0]}, "1 indices for 0 values"),
        ({"generation": 2, "full": True, "values": [1.0]}, "0 indices for 1 values"),
        (
            {"generation": 2, "full": True, "indices": [1], "values": [1.0]},
            "an index beyond the 1 metrics subscribed to",
        ),
        ({"generation": 2, "full": True, "absent": [0], "unread": [0]}, "named more than once"),
        ({"generation": 2, "full": True, "several": [several(0, 1)]}, "1 samples"),
        ({"generation": 2, "full": True, "several": [several(0, 2**32 - 1)]}, "4294967295 samples"),
        ({"generation": 2, "indices": [0], "values": [1.0]}, "a full report is required first"),
        ({"generation": 2}, "a full report is required first"),
    ],
)
async def test_protocol_error_ends_the_stream_with_a_clear_status(
    evaluator, agent, fields, sentence
):
    evaluator.want("a")
    node = await agent()
    await node.introduced()
    await node.say(**fields)
    code, details = await node.ended()
    assert code is INVALID
    assert sentence in details
    assert evaluator.reports == []
    assert not evaluator.store.knows("node-b")
    other = await agent("node-c")
    await other.introduced()
    await other.say(generation=2, full=True)
    await evaluator.heard(1)


@pytest.mark.parametrize("breaks", [True, False], ids=["protocol error", "agent disconnects"])
async def test_stream_ends_although_a_subscription_is_being_sent_to_a_slow_agent(
    evaluator, agent, breaks
):
    evaluator.want(*(f"metric_{number:0100d}" for number in range(20_000)))
    node = await agent()
    await node.say()
    if breaks:
        await node.say(generation=99)
    else:
        await node.stream.done_writing()
    for _ in range(100):  # it does not read, so the list, of 2 MB, is still being sent
        await asyncio.sleep(0)
    assert len((await node.hear()).metrics) == 20_000
    code, details = await node.ended()
    assert code is (INVALID if breaks else grpc.StatusCode.OK)
    assert ("generation 99" in details) is breaks


async def test_new_subscription_must_be_answered_in_full_first(evaluator, agent):
    evaluator.want("a")
    node = await agent()
    await node.introduced()
    await node.say(generation=2, full=True)
    await evaluator.heard(1)
    evaluator.want("a", "b")
    await node.hear()
    await node.say(generation=3, indices=[1], values=[1.0])
    code, details = await node.ended()
    assert (code, details) == (INVALID, "a full report is required first")


async def test_forgotten_node_must_start_over(evaluator, agent):
    """Changes alone would leave the other metrics pending forever."""
    evaluator.want("a")
    node = await agent()
    await node.introduced()
    await node.say(generation=2, full=True, indices=[0], values=[1.0])
    await evaluator.heard(1)
    evaluator.store.forget("node-a")
    await node.say(generation=2)
    assert (await node.ended())[0] is INVALID
    assert not evaluator.store.knows("node-a")


async def test_missing_node_name_is_rejected(agent):
    node = await agent("")
    await node.say()
    assert await node.ended() == (INVALID, "a Report needs a node_name")


async def test_oversized_report_is_rejected(evaluator, agent):
    evaluator.want("a")
    node = await agent()
    await node.introduced()
    await node.say(generation=2, full=True, indices=range(400_000), values=[1.0] * 400_000)
    code, _ = await node.ended()
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert evaluator.reports == []


async def test_stream_without_a_report_leaves_nothing_behind(evaluator, agent, until):
    node = await agent()
    await node.stream.done_writing()
    assert (await node.ended())[0] is grpc.StatusCode.OK
    assert evaluator.agents.connected == 0


def failing(rule):
    entry = telemetry_pb2.FailingRule(group="g", rule=rule, reason="limit", text="too many")
    return telemetry_pb2.FailingRules(rules=[entry])


async def test_failing_rules_are_those_of_the_last_report_and_end_with_the_stream(
    evaluator, agent, until
):
    evaluator.want("a")
    node = await agent()
    await node.introduced()
    await node.say(generation=2, full=True, absent=[0], failing_rules=failing("r"))
    await evaluator.heard(1)
    await node.say(generation=2)
    await evaluator.heard(2)
    assert [rule.rule for rule in evaluator.failing["node-a"].seconds] == ["r"]
    await node.say(generation=2, failing_rules=failing("s"))
    await evaluator.heard(3)
    assert [rule.rule for rule in evaluator.failing["node-a"].seconds] == ["s"]
    await node.stream.done_writing()
    await until(lambda: not evaluator.failing["node-a"].seconds)


async def test_stream_that_was_replaced_does_not_end_the_failing_rules_of_the_next(
    evaluator, agent
):
    evaluator.want("a")
    old, new = await agent(), await agent()
    await old.introduced()
    await new.introduced()
    await new.say(generation=2, full=True, absent=[0], failing_rules=failing("r"))
    await evaluator.heard(1)
    assert (await old.ended())[0] is grpc.StatusCode.ALREADY_EXISTS
    assert evaluator.failing["node-a"].seconds


@pytest.mark.parametrize("how", ["done_writing", "cancel"])
async def test_ended_stream_is_no_longer_counted(evaluator, agent, until, how):
    evaluator.want("a")
    one, other = await agent(), await agent("node-b")
    await one.introduced()
    await other.introduced()
    assert evaluator.agents.connected == 2
    if how == "cancel":
        one.stream.cancel()
    else:
        await one.stream.done_writing()
    await until(lambda: evaluator.agents.connected == 1)
    evaluator.want("a", "b")
    assert list((await other.hear()).metrics) == ["a", "b"]


async def test_early_reconnect_counts_as_one_node(evaluator, agent, until):
    old, new = await agent(), await agent()
    await old.introduced()
    await new.introduced()
    assert evaluator.agents.connected == 1
    old.stream.cancel()
    evaluator.want("a")
    await new.hear()
    await new.say(generation=2, full=True, indices=[0], values=[5.0])
    await evaluator.heard(1)
    assert evaluator.agents.connected == 1


async def test_stopping_ends_all_streams(evaluator, agent):
    node = await agent()
    await node.introduced()
    await evaluator.agents.stop()
    code, _ = await node.ended()
    assert code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}


async def test_port_in_use_is_an_os_error(evaluator):
    with pytest.raises(OSError, match=f"cannot listen for agents on 127.0.0.1:{evaluator.port}"):
        await Evaluator().agents.start(GrpcPort(f"127.0.0.1:{evaluator.port}"))


class Broken:
    """A stream whose transport broke during a write: gRPC accepts no operation on it and has no status yet."""

    async def abort(self, code, details):
        raise grpc.aio.InternalError("Failed grpc_call_start_batch: 8")


async def test_failed_abort_ends_the_stream_and_is_no_failure():
    with pytest.raises(asyncio.CancelledError):  # gRPC ends the stream on it silently
        await GrpcCall(Broken()).abort(Code.RESOURCE_EXHAUSTED, "no more")


async def test_rejected_streams_are_freed_without_the_garbage_collector(evaluator, agent):
    gc.freeze()  # objects of earlier tests are not counted
    gc.disable()
    try:
        for _ in range(20):
            code, _ = await (await _spoken(await agent(""))).ended()
            assert code is INVALID
        kept = [found for found in gc.get_objects() if type(found).__name__ == "_ServicerContext"]
        assert len(kept) < 5  # the last may not have ended yet
    finally:
        gc.enable()
        gc.unfreeze()


async def _spoken(agent):
    await agent.say()
    return agent
