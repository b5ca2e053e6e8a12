"""The connection of the agent's stream: lost, rejected, and secured."""

import asyncio
import contextlib
import itertools
import random

import grpc
import pytest

from agent.stream.client import StreamClient, Target
from agent.stream.credentials import Credentials
from plimsoll.backoff import Backoff
from tests.agent.stream.scripted import Evaluator, said
from tests.patience import PATIENCE


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
