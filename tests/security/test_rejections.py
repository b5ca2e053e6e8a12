"""No rejection of any port leaves memory behind, with the garbage collector as in production."""

import asyncio
import contextlib
import socket

import grpc
import psutil
import pytest

from sandbox.processes import HeldPort
from tests.patience import PATIENCE
from tests.security import rawh2
from wire import telemetry_pb2

pytestmark = [pytest.mark.e2e, pytest.mark.features("custom_metrics", "evictions", "gangs")]

TIMES, WARM_UP = 75, 20
"""Of each rejection; `--soak`: 1,000. 75 requests with too many fields left 2.5 MB, 75 with trailers another 2.5."""
STREAMS = 750
"""Of each rejection: a stream left 2 KB, so four kinds 6 MB."""
AT_ONCE = 8
GROWTH = 4 << 20
"""Bytes of noise: buffers, pools and counters that a port makes once; 1 MB were seen."""


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


BY_THE_HANDLER = {
    *("a large body", "too many trailers", "no chunk size", "small chunks"),
    *("no such path", "no such method", "no JSON"),
}
"""Rejections that the handler of a port takes part in. The server refuses all others by the header, alike on every port."""
PORTS = {
    "ops": {*REJECTIONS},
    "extender": {*BY_THE_HANDLER, "too many fields"},
    "gangs": {*BY_THE_HANDLER, "too many fields"},
    "custom": {*BY_THE_HANDLER, "too many fields"},
}
"""What is rejected on each port of an evaluator: without TLS, with clients' certificates, and with TLS."""


async def repeated(times, act):
    left = iter(range(times))

    async def work():
        for _ in left:
            await act()

    async with asyncio.timeout(PATIENCE * 4), asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


def rejected(port, data, tls):
    """Send data on a new connection and read until the header ends; returns what was received."""
    found = b""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        client = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
        if tls:
            client = stack.enter_context(tls.wrap_socket(client, server_hostname="127.0.0.1"))
        client.sendall(data)
        while b"\r\n\r\n" not in found and (part := client.recv(65_536)):
            found += part
    return found


async def driven(port, tls, times, names=frozenset(REJECTIONS)):
    """Send each of these so many times. In threads without an event loop, whose connections cost more than their answers."""
    for data in (REJECTIONS[name] for name in REJECTIONS if name in names):
        await repeated(times, lambda data=data: asyncio.to_thread(rejected, port, data, tls))


async def flat(pid, drive, settled):
    """Drive all rejections, some of them before; memory must be as large as before once that has settled."""
    process = psutil.Process(pid)
    processes = [process, *process.children()]  # gRPC has a process of its own

    def resident():
        return sum(one.memory_info().rss for one in processes)

    await drive(WARM_UP)
    before = resident()
    await drive(settled)
    async with asyncio.timeout(PATIENCE):
        while resident() > before + GROWTH:  # noqa: ASYNC110 (another process tells nobody)
            await asyncio.sleep(0.1)


@pytest.fixture
def times(request):
    return 1_000 if request.config.getoption("--soak") else TIMES


@pytest.mark.parametrize("name", [name for name in REJECTIONS if name not in BY_THE_HANDLER])
async def test_server_rejects_by_the_header_without_its_handler(serve, name):
    asked = []

    async def handler(request):
        asked.append(request)

    site = await serve(handler, check=asked.append)
    answer = await asyncio.to_thread(rejected, site.address.port, REJECTIONS[name], None)
    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    assert asked == []


async def test_rejected_requests_of_the_evaluator_leave_no_memory(installation, times):
    with HeldPort() as custom:
        await installation.start_evaluator(f"--customMetricsPort={custom.number}", listeners=5)
        await installation.start_agent()
        await installation.ready()
        authority, pid = installation.authority, installation.pid("evaluator")
        for name, rejections in PORTS.items():
            shown = installation.scheduler if name == "extender" else ()
            tls = None if name == "ops" else authority.client(*shown)
            port = custom.number if name == "custom" else installation.port(name)
            answer = rejected(port, REJECTIONS["too many fields"], tls)
            assert answer.startswith(b"HTTP/1.1 431")
            await flat(
                pid, lambda count, p=port, t=tls, r=rejections: driven(p, t, count, r), times
            )


async def test_rejected_requests_of_the_agent_leave_no_memory(installation, eventually, times):
    await installation.start_agent(more=("--web.config.file=",))
    await eventually(lambda: "listening" in installation.log("agent"))
    port = installation.port("agent")
    answer = rejected(port, REJECTIONS["too many fields"], None)
    assert answer.startswith(b"HTTP/1.1 431")
    await flat(installation.pid("agent"), lambda count: driven(port, None, count), times)


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
