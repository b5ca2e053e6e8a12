"""The agent's stream over real gRPC: real files and collector runs, and a scripted evaluator."""

import asyncio
import contextlib
import itertools
import random
from dataclasses import dataclass, field

import grpc
import pytest

from agent.scrape.runner import CollectorRunner
from agent.stream.client import StreamClient, Target
from agent.stream.credentials import Credentials
from collectors.interface.sample import CollectorError, Family, Sample
from collectors.textfile import Options, TextFile
from plimsoll import VERSION
from plimsoll.backoff import Backoff
from tests.patience import PATIENCE
from wire import codec, telemetry_pb2, telemetry_pb2_grpc

HOURS = 3_600_000
HEARTBEAT = {"node_name", "generation"}
"""What a report without news says."""


@dataclass
class ReceivedStream:
    """One stream as seen by the evaluator."""

    context: grpc.aio.ServicerContext
    reports: asyncio.Queue = field(default_factory=asyncio.Queue)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    ending: tuple | None = None

    async def next(self):
        async with asyncio.timeout(PATIENCE):
            return await self.reports.get()

    async def news(self):
        """Return the next report that is not a heartbeat: a temporary file beside a .prom file may cause one."""
        while True:
            report = await self.next()
            if {one.name for one, _ in report.ListFields()} - HEARTBEAT:
                return report

    async def ask(self, *metrics, generation=1, interval_ms=HOURS):
        await self.context.write(
            telemetry_pb2.Subscription(
                generation=generation, metrics=metrics, interval_ms=interval_ms
            )
        )

    def end(self, code=None, details=""):
        self.ending = (code, details) if code else None
        self.over.set()


class Evaluator(telemetry_pb2_grpc.TelemetryServicer):
    """A scripted evaluator: each stream does what the test requests."""

    def __init__(self):
        self.streams = asyncio.Queue()
        self.port = 0
        self._server = None

    async def start(self, port=0, credentials=None):
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        telemetry_pb2_grpc.add_TelemetryServicer_to_server(self, self._server)
        address = f"127.0.0.1:{port}"
        if credentials:
            self.port = self._server.add_secure_port(address, credentials)
        else:
            self.port = self._server.add_insecure_port(address)
        await self._server.start()

    async def stop(self):
        await self._server.stop(grace=0)

    async def Stream(self, _requests, context):  # noqa: N802
        heard = ReceivedStream(context)
        self.streams.put_nowait(heard)
        listening = asyncio.create_task(self._listen(heard))
        ending = asyncio.create_task(heard.over.wait())
        try:
            await asyncio.wait([listening, ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
            ending.cancel()
            heard.gone.set()
        if heard.ending:
            await context.abort(*heard.ending)

    async def _listen(self, heard):
        while isinstance(report := await heard.context.read(), telemetry_pb2.Report):
            heard.reports.put_nowait(report)

    async def stream(self):
        async with asyncio.timeout(PATIENCE):
            return await self.streams.get()

    async def introduced(self, *metrics, **more):
        """A new stream after its first report, subscribed to these metrics."""
        stream = await self.stream()
        await stream.next()
        await stream.ask(*metrics, **more)
        return stream


class Source:
    """A fake collector that can fail."""

    def __init__(self, name):
        self.name = name
        self.value = 1.0
        self.error = None
        self.runs = 0

    def collect(self):
        self.runs += 1
        if self.error:
            raise self.error
        yield Family(self.name, "gauge", "x", (Sample(self.name, (), self.value),))


@pytest.fixture
def files(tmp_path):
    """Write a .prom file atomically, as an operator's script should; None deletes it."""
    path, aside = tmp_path / "text.prom", tmp_path / "text.prom.tmp"

    def write(text):
        if text is None:
            path.unlink()
        else:
            aside.write_text(text)
            aside.rename(path)

    return write


@pytest.fixture
def memory():
    return Source("node_memory_MemAvailable_bytes")


@pytest.fixture
def collector_runner(tmp_path, memory):
    made = CollectorRunner(
        {"textfile": TextFile(Options((str(tmp_path),))), "meminfo": memory}, poll_interval=0.01
    )
    yield made
    made.close()


@pytest.fixture
async def evaluator():
    made = Evaluator()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def states(collector_runner, evaluator):
    """Run the stream client as node-a and record when the stream was up and lost."""
    noted = []
    target = Target(f"127.0.0.1:{evaluator.port}", "node-a")
    backoff = Backoff(lambda: 0.0, first=0.01, longest=0.1)
    streamer = StreamClient(target, collector_runner, on_state=noted.append, backoff=backoff)
    task = asyncio.create_task(streamer.run())
    yield noted
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def said(report, *metrics):
    """The content of a report: metric → value, ("several", n), "absent" or "unread"."""
    delta = codec.decode(report, metrics)
    return (
        dict.fromkeys(delta.absent, "absent")
        | dict.fromkeys(delta.unread, "unread")
        | {metric: ("several", count) for metric, count in delta.several.items()}
        | dict(delta.values)
    )


async def test_stream_begins_with_the_node_name(states, evaluator):
    first = await (await evaluator.stream()).next()
    assert (first.node_name, first.agent_version) == ("node-a", VERSION)
    assert (first.generation, first.full, list(first.values)) == (0, False, [])
    assert states == []


async def test_first_report_is_complete(files, states, evaluator):
    files('node_health_metric 1\nload 2\nper_cpu{cpu="0"} 1\nper_cpu{cpu="1"} 1\n')
    asked = ("health_metric", "load", "missing", "per_cpu")
    stream = await evaluator.introduced(*asked)
    report = await stream.next()
    assert (report.node_name, report.generation, report.full) == ("node-a", 1, True)
    assert said(report, *asked) == {
        "health_metric": 1.0,
        "load": 2.0,
        "missing": "absent",
        "per_cpu": ("several", 2),
    }
    assert states == [True]


async def test_series_similar_to_absent_metrics_follow_the_full_report(files, states, evaluator):
    files("node_health_metric 1\nrack_inlet_celsius 30\n")
    asked = ("health_metric", "rack_inlet_celcius")
    stream = await evaluator.introduced(*asked)
    full = codec.decode(await stream.news(), asked)
    assert (full.values, full.similar) == ({"health_metric": 1.0}, {})
    names = codec.decode(await stream.news(), asked)
    assert (names.values, names.similar) == ({}, {"rack_inlet_celcius": ("rack_inlet_celsius",)})
    files("node_health_metric 2\nrack_inlet_celsius 30\n")
    changed = codec.decode(await stream.news(), asked)
    assert (changed.values, changed.similar) == ({"health_metric": 2.0}, {})


async def test_changed_file_is_reported_at_once_and_alone(files, states, evaluator):
    """The requested interval is an hour; only the file change can cause this report."""
    files("a 1\nb 1\n")
    stream = await evaluator.introduced("a", "b")
    await stream.next()
    files("a 1\nb 2\n")
    report = await stream.news()
    assert not report.full
    assert (list(report.indices), list(report.values)) == ([1], [2.0])
    assert not report.absent


async def test_hundred_changes_arrive_in_order(files, states, evaluator):
    files("a 0\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    last = 0.0
    for value in range(1, 100):
        files(f"a {value}\n")
        while last < value:
            report = await stream.next()
            for seen in report.values:
                assert last < seen <= value
                last = seen


async def test_vanished_metric_is_reported_absent(files, states, evaluator):
    files("a 0\n")
    stream = await evaluator.introduced("a")
    assert said(await stream.next(), "a") == {"a": 0.0}
    files(None)
    assert said(await stream.news(), "a") == {"a": "absent"}


async def test_second_sample_removes_the_value_until_it_ends(files, states, evaluator):
    files("a 5\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    files('a{x="1"} 5\na{x="2"} 5\n')
    assert said(await stream.news(), "a") == {"a": ("several", 2)}
    files("a 5\n")
    assert said(await stream.news(), "a") == {"a": 5.0}


async def test_heartbeat_at_its_interval_names_nothing(files, states, evaluator):
    files("a 1\n")
    stream = await evaluator.introduced("a", interval_ms=20)
    await stream.next()
    for _ in range(3):
        report = await stream.next()
        assert (report.node_name, report.generation, report.full) == ("node-a", 1, False)
        assert said(report, "a") == {}


async def test_empty_subscription_gets_heartbeats(states, evaluator, memory):
    stream = await evaluator.introduced(interval_ms=20)
    assert (await stream.next()).full
    assert not (await stream.next()).full
    assert memory.runs == 0


async def test_only_collectors_of_subscribed_metrics_run(files, states, evaluator, memory):
    files("a 1\n")
    stream = await evaluator.introduced("a", interval_ms=20)
    await stream.next()
    await stream.next()
    assert memory.runs == 0
    await stream.ask("memory_MemAvailable_bytes", generation=2, interval_ms=20)
    while (report := await stream.next()).generation == 1:
        pass
    assert said(report, "memory_MemAvailable_bytes") == {"memory_MemAvailable_bytes": 1.0}
    assert memory.runs > 0


async def test_failed_source_is_unread_and_not_absent(states, evaluator, memory):
    metric = "memory_MemAvailable_bytes"
    stream = await evaluator.introduced(metric, interval_ms=20)
    assert said(await stream.next(), metric) == {metric: 1.0}
    memory.error = CollectorError("the disk is on fire")
    while not (found := said(await stream.next(), metric)):
        pass
    assert found == {metric: "unread"}
    assert said(await stream.next(), metric) == {metric: "unread"}
    memory.error = None
    while (found := said(await stream.next(), metric)) == {metric: "unread"}:
        pass
    assert found == {metric: 1.0}


async def test_new_subscription_is_answered_at_once_and_in_full(files, states, evaluator):
    files("a 1\nb 2\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    await stream.ask("b", "a", generation=7)
    report = await stream.news()
    assert (report.generation, report.full) == (7, True)
    assert said(report, "b", "a") == {"b": 2.0, "a": 1.0}
    files("a 3\nb 2\n")
    report = await stream.news()
    assert (report.generation, list(report.indices), list(report.values)) == (7, [1], [3.0])


async def test_last_of_many_subscriptions_is_answered(files, states, evaluator):
    files("a 1\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    for generation in range(2, 50):
        await stream.ask("a", generation=generation)
    last = 1
    while last < 49:
        report = await stream.next()
        assert report.full == (report.generation > last)
        assert report.generation >= last
        last = report.generation


async def test_ended_stream_is_reopened_with_a_full_report(files, states, evaluator):
    files("a 1\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    stream.end()
    again = await evaluator.introduced("a", generation=5)
    report = await again.next()
    assert (report.generation, report.full) == (5, True)
    assert said(report, "a") == {"a": 1.0}
    assert states == [True, False, True]


@pytest.mark.parametrize(
    "code",
    [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE],
)
async def test_rejection_is_retried(files, states, evaluator, code):
    files("a 1\n")
    for _ in range(3):
        stream = await evaluator.stream()
        await stream.next()
        stream.end(code, "go away")
    stream = await evaluator.introduced("a")
    assert said(await stream.next(), "a") == {"a": 1.0}


async def test_restarted_evaluator_is_found_again(files, states, evaluator):
    files("a 1\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    port = evaluator.port
    await evaluator.stop()
    files("a 2\n")
    await evaluator.start(port)
    again = await evaluator.introduced("a")
    assert said(await again.next(), "a") == {"a": 2.0}
    assert states[0] is states[-1] is True
    assert False in states


async def test_streams_broken_at_any_moment_never_end_the_agent(files, states, evaluator):
    """Between two reports, within one, or before the first response: a lost stream has no other effect."""
    files("a 0\n")
    chance = random.Random(11)
    for turn in range(40):
        stream = await evaluator.stream()
        if chance.random() < 0.8:
            await stream.next()
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await stream.ask("a", interval_ms=1)
        for _ in range(chance.randrange(4)):
            files(f"a {turn}\n")
            await asyncio.sleep(chance.random() * 0.005)
        stream.end(*chance.choice([(), (grpc.StatusCode.UNAVAILABLE, "gone")]))
    stream = await evaluator.introduced("a")
    assert (await stream.next()).full


async def test_evaluator_that_rejects_after_each_report_is_retried_with_backoff(
    files, collector_runner, evaluator
):
    """It subscribes, receives a report and ends the stream, repeatedly: the backoff must grow."""
    files("a 1\n")
    target = Target(f"127.0.0.1:{evaluator.port}", "node-a")
    backoff = Backoff(lambda: 0.0, first=0.25)
    task = asyncio.create_task(StreamClient(target, collector_runner, backoff=backoff).run())
    loop = asyncio.get_running_loop()
    begins = []
    for _ in range(5):
        stream = await evaluator.introduced("a")
        begins.append(loop.time())
        await stream.next()
        stream.end(grpc.StatusCode.INVALID_ARGUMENT, "not understood")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    waits = [after - before for before, after in itertools.pairwise(begins)]
    # A tenth of 0.25 s, doubled each time: a lower bound on any machine.
    assert all(wait >= 0.025 * 2**turn * 0.9 for turn, wait in enumerate(waits)), waits


async def test_cancelling_ends_the_stream(collector_runner, evaluator):
    target = Target(f"127.0.0.1:{evaluator.port}", "node-a")
    task = asyncio.create_task(StreamClient(target, collector_runner).run())
    stream = await evaluator.introduced("a")
    await stream.next()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(PATIENCE):
        await stream.gone.wait()


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.ALREADY_EXISTS,
    ],
)
async def test_rejection_has_a_longer_backoff_than_a_lost_connection(
    collector_runner, evaluator, code
):
    target = Target(f"127.0.0.1:{evaluator.port}", "node-a")
    loop = asyncio.get_running_loop()
    streamer = StreamClient(
        target,
        collector_runner,
        backoff=Backoff(lambda: 0.0, first=0.01),
        refused=Backoff(lambda: 0.0, first=2.0),
    )
    task = asyncio.create_task(streamer.run())
    stream = await evaluator.stream()
    await stream.next()
    begin = loop.time()
    stream.end(code, "no, you are not")
    await evaluator.stream()
    assert loop.time() - begin > 0.18  # a tenth of 2 s
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_agent_of_a_recreated_node_reconnects_as_after_a_lost_connection(
    collector_runner, evaluator
):
    """The backoff after a rejection would leave the new node without readings for minutes."""
    target = Target(f"127.0.0.1:{evaluator.port}", "node-a")
    streamer = StreamClient(
        target,
        collector_runner,
        backoff=Backoff(lambda: 0.0, first=0.01),
        refused=Backoff(lambda: 0.0, first=1e6, longest=1e6),
    )
    task = asyncio.create_task(streamer.run())
    for _ in range(3):
        stream = await evaluator.stream()
        await stream.next()
        stream.end(grpc.StatusCode.NOT_FOUND, "there is no node node-a in the cluster")
    await evaluator.stream()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_stream_is_tls_with_a_token_that_is_read_again(
    collector_runner, authority, server_pair, tmp_path
):
    token = tmp_path / "token"
    token.write_text("first")
    secured = Evaluator()
    cert, key = (path.read_bytes() for path in server_pair)
    await secured.start(credentials=grpc.ssl_server_credentials([(key, cert)]))
    credentials = Credentials(str(authority.file), token=str(token))
    target = Target(f"127.0.0.1:{secured.port}", "node-a", credentials=credentials)
    backoff = Backoff(lambda: 0.0, first=0.01)
    task = asyncio.create_task(StreamClient(target, collector_runner, backoff=backoff).run())
    for text in ("first", "second"):
        stream = await secured.introduced()
        assert ("authorization", f"Bearer {text}") in tuple(stream.context.invocation_metadata())
        await stream.next()
        token.write_text("second")
        stream.end()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await secured.stop()


async def test_no_token_is_sent_to_another_name_or_ca(
    collector_runner, authority, untrusted, server_pair
):
    secured = Evaluator()
    cert, key = (path.read_bytes() for path in server_pair)
    await secured.start(credentials=grpc.ssl_server_credentials([(key, cert)]))
    for credentials in (
        Credentials(str(untrusted.file)),
        Credentials(str(authority.file), server_name="evaluator.plimsoll"),
    ):
        target = Target(f"127.0.0.1:{secured.port}", "node-a", credentials=credentials)
        lost = asyncio.Event()
        streamer = StreamClient(
            target, collector_runner, on_state=lambda _up, lost=lost: lost.set()
        )
        task = asyncio.create_task(streamer.run())
        async with asyncio.timeout(PATIENCE):
            await lost.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert secured.streams.empty()
    await secured.stop()


async def test_missing_credentials_are_retried(collector_runner, authority, tmp_path, evaluator):
    """A Secret that is mounted late must not end an agent that also serves Prometheus."""
    credentials = Credentials(str(tmp_path / "ca.crt"))
    target = Target(f"127.0.0.1:{evaluator.port}", "node-a", credentials=credentials)
    states = asyncio.Queue()
    backoff = Backoff(lambda: 0.0, first=0.01)
    streamer = StreamClient(target, collector_runner, on_state=states.put_nowait, backoff=backoff)
    task = asyncio.create_task(streamer.run())
    for _ in range(3):
        async with asyncio.timeout(PATIENCE):
            assert await states.get() is False
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
