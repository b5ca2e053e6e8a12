"""No rejection of any port leaves memory behind, with the garbage collector as in production."""

import asyncio
import contextlib

import grpc
import psutil
import pytest

from sandbox.processes import HeldPort
from tests.patience import PATIENCE
from tests.security import rawh2
from wire import telemetry_pb2

pytestmark = pytest.mark.e2e

TIMES, WARM_UP = 150, 20
"""Of each rejection; `--soak`: 1,000. 150 requests with too many fields left 5 MB, 150 with trailers another 5."""
STREAMS = 1_500
"""Of each rejection: a stream left 2 KB, so four kinds 12 MB."""
AT_ONCE = 8
GROWTH = 8 << 20
"""Bytes of noise: buffers, pools and counters that a port makes once."""
REFUSED = (OSError, asyncio.IncompleteReadError)


def get(*lines, target=b"/", version=b"1.1"):
    return b"\r\n".join((b"GET %s HTTP/%s" % (target, version), b"Host: x", *lines, b"", b""))


def post(*lines):
    return b"\r\n".join((b"POST /scheduler/filter HTTP/1.1", b"Host: x", *lines, b"", b""))


CHUNKED, CLOSE = b"Transfer-Encoding: chunked", b"Connection: close"
MANY = (b"a: b",) * 1_100
REJECTIONS = {
    "no request line": b"nonsense\r\n\r\n",
    "too many fields": get(*MANY),
    "no field": get(b"a b"),
    "a long header": get(b"a: " + b"b" * 70_000),
    "another version": get(version=b"2.0"),
    "too many parameters": get(target=b"/?" + b"a&" * 101),
    "a long query": get(target=b"/?" + b"a" * 5_000),
    "no Host": get(b"Host: /"),
    "an expectation": post(b"Expect: more"),
    "no length": post(b"Content-Length: x"),
    "two lengths": post(b"Content-Length: 1", CHUNKED),
    "another coding": post(b"Transfer-Encoding: gzip"),
    "a large body": post(b"Content-Length: 999999999999"),
    "too many trailers": post(CHUNKED) + b"0\r\n" + b"a: b\r\n" * 150 + b"\r\n",
    "no chunk size": post(CHUNKED) + b"x\r\n",
    "small chunks": post(CHUNKED) + b"1\r\n \r\n" * 5_000,
    "no such path": get(CLOSE, target=b"/nothing"),
    "no such method": get(CLOSE).replace(b"GET", b"BREW"),
    "no JSON": post(b"Content-Length: 4", CLOSE) + b"nope",
}


async def repeated(times, act):
    left = iter(range(times))

    async def work():
        for _ in left:
            await act()

    async with asyncio.timeout(PATIENCE * 4), asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


async def rejected(port, data, tls):
    """Send data on a new connection and read until it ends; returns what was received."""
    with contextlib.suppress(*REFUSED):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        try:
            writer.write(data)
            async with asyncio.timeout(PATIENCE):
                return await reader.readuntil(b"\r\n\r\n")
        finally:
            writer.transport.abort()
    return b""


async def driven(port, tls, times):
    for data in REJECTIONS.values():
        await repeated(times, lambda data=data: rejected(port, data, tls))


async def flat(pid, drive, settled):
    """Drive all rejections, some of them before; memory must be as large as before once that has settled."""
    resident = psutil.Process(pid).memory_info
    await drive(WARM_UP)
    before = resident().rss
    await drive(settled)
    async with asyncio.timeout(PATIENCE):
        while resident().rss > before + GROWTH:  # noqa: ASYNC110 (another process tells nobody)
            await asyncio.sleep(0.1)


@pytest.fixture
def times(request):
    return 1_000 if request.config.getoption("--soak") else TIMES


@pytest.mark.parametrize("name", ["ops", "extender", "gangs", "custom"])
async def test_rejected_requests_of_the_evaluator_leave_no_memory(installation, times, name):
    with HeldPort() as custom:
        await installation.start_evaluator(f"--customMetricsPort={custom.number}", listeners=5)
        await installation.start_agent()
        await installation.ready()
        authority = installation.authority
        shown = installation.scheduler if name == "extender" else ()
        tls = None if name == "ops" else authority.client(*shown)
        port = custom.number if name == "custom" else installation.port(name)
        answer = await rejected(port, REJECTIONS["too many fields"], tls)
        assert answer.startswith(b"HTTP/1.1 431")
        await flat(installation.pid("evaluator"), lambda count: driven(port, tls, count), times)


async def test_rejected_requests_of_the_agent_leave_no_memory(installation, eventually, times):
    await installation.start_agent(more=("--web.config.file=",))
    await eventually(lambda: "listening" in installation.log("agent"))
    port = installation.port("agent")
    answer = await rejected(port, REJECTIONS["too many fields"], None)
    assert answer.startswith(b"HTTP/1.1 431")
    await flat(installation.pid("agent"), lambda n: driven(port, None, n), times)


STREAM_REJECTIONS = {
    "no token": (rawh2.PATH, telemetry_pb2.Report(node_name="node-a")),
    "no name": (rawh2.PATH, telemetry_pb2.Report()),
    "an invalid name": (rawh2.PATH, telemetry_pb2.Report(node_name="/")),
    "no report": (rawh2.PATH, b"\xff" * 20),
    "a large message": (rawh2.PATH, bytes(100 << 10)),
    "no such method": ("/no.such.Service/Method", b""),
}


async def test_rejected_streams_leave_no_memory(installation):
    await installation.start_evaluator()
    await installation.start_agent()
    await installation.ready()
    trusted = grpc.ssl_channel_credentials(installation.authority.file.read_bytes())
    address = f"127.0.0.1:{installation.port('agents')}"
    async with grpc.aio.secure_channel(address, trusted) as channel:

        async def reject(path, message):
            call = channel.stream_stream(path)()
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await call.write(
                    message if isinstance(message, bytes) else message.SerializeToString()
                )
            assert await call.code() is not grpc.StatusCode.OK

        async def drive(count):
            for path, message in STREAM_REJECTIONS.values():
                await repeated(count, lambda p=path, m=message: reject(p, m))

        await flat(installation.pid("evaluator"), drive, STREAMS)
