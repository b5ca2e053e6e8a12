"""Bytes between clients and gRPC, in whose place a server listens on the Unix socket: hostile and slow ones of either."""

import asyncio
import contextlib
import errno
import os
import resource
import socket
import struct

import pytest

from evaluator.core.sources.agents.relay import Relay
from evaluator.core.sources.agents.unadmitted import Bounds
from plimsoll.http.addresses import Address, ListenError
from tests.eventually import eventually
from tests.patience import PATIENCE

KB, MB = 1 << 10, 1 << 20


class Site:
    """A relay, and the connections that reach the server behind it."""

    def __init__(self, **bounds):
        self.closed = {}
        self.accepted = asyncio.Queue()
        self.relay = Relay(Bounds(**bounds), self.closed.update)
        self._writers = []

    async def start(self, stack):
        path = "\0" + self.relay.target.partition(":")[2]
        server = await asyncio.start_unix_server(self._accept, path)
        stack.callback(self._abort)
        stack.callback(server.close)
        self.port = self.relay.listen(Address("127.0.0.1", 0))
        running = asyncio.create_task(self.relay.run())
        stack.callback(self.relay.close)
        stack.callback(running.cancel)

    def _accept(self, *streams):
        self._writers.append(streams[1])
        self.accepted.put_nowait(streams)

    def _abort(self):
        for writer in self._writers:
            writer.transport.abort()

    async def dial(self):
        streams = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(streams[1])
        return streams

    async def connect(self, size=10):
        """A connection on which some bytes were sent: the client's end, and that of the server."""
        reader, writer = await self.dial()
        writer.write(bytes(size))
        async with asyncio.timeout(PATIENCE):
            accepted = await self.accepted.get()
            await accepted[0].readexactly(size)
        return (reader, writer), accepted

    def admit(self, accepted):
        self.relay.admit(name(accepted))

    def left(self):
        """Close the connections that reached the server; whether none is left."""
        while not self.accepted.empty():
            self.accepted.get_nowait()[1].close()
        return not self.connections

    @property
    def connections(self):
        return len(self.relay._connections)


def name(accepted):
    """As gRPC names the client of an accepted connection."""
    peer = accepted[1].get_extra_info("peername")
    return "unix-abstract:" + peer.decode().removeprefix("\0")


async def read(streams, count=-1):
    """Read a number of bytes, or up to the end."""
    async with asyncio.timeout(PATIENCE):
        return await (streams[0].readexactly(count) if count >= 0 else streams[0].read())


async def ended(streams):
    """Wait until the other side has ended a connection."""
    with contextlib.suppress(ConnectionError):
        await read(streams)


async def write(streams, data):
    streams[1].write(data)
    async with asyncio.timeout(PATIENCE):
        await streams[1].drain()


@pytest.fixture
async def started():
    """Start a relay with bounds."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(**bounds):
            made = Site(**bounds)
            await made.start(stack)
            return made

        yield start


async def test_bytes_are_passed_in_both_directions(started):
    site = await started()
    client, accepted = await site.connect()
    site.admit(accepted)
    sent = os.urandom(MB)
    for source, target in ((client, accepted), (accepted, client)):
        _, received = await asyncio.gather(write(source, sent), read(target, len(sent)))
        assert received == sent


async def test_client_has_the_name_of_its_address(started):
    site = await started()
    client, accepted = await site.connect()
    port = client[1].get_extra_info("sockname")[1]
    assert site.relay.peer(name(accepted)) == f"ipv4:127.0.0.1:{port}"
    client[1].close()
    await ended(accepted)
    accepted[1].close()
    await eventually(lambda: site.relay.peer(name(accepted)) is None)
    for other in ("unix:", f"{site.relay.target}/x", "ipv4:127.0.0.1:4711"):
        assert site.relay.peer(other) is None


async def test_end_of_a_client_reaches_the_server_after_its_bytes(started):
    site = await started()
    client, accepted = await site.connect()
    client[1].write(b"last")
    client[1].write_eof()
    assert await read(accepted) == b"last"
    await write(accepted, b"answer")
    accepted[1].close()
    assert await read(client) == b"answer"
    await eventually(lambda: site.connections == 0)


async def test_end_of_the_server_reaches_a_client_that_stays(started):
    site = await started()
    client, accepted = await site.connect()
    await write(accepted, b"goodbye")
    accepted[1].close()
    assert await read(client) == b"goodbye"
    await eventually(lambda: site.connections == 0)


async def test_reset_of_a_client_reaches_the_server(started):
    site = await started()
    client, accepted = await site.connect()
    linger = struct.pack("ii", 1, 0)
    client[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    client[1].transport.abort()
    await ended(accepted)
    await eventually(lambda: site.connections == 0)


async def test_client_that_does_not_read_delays_no_other_and_is_forgotten_with_its_server(started):
    site = await started()
    deaf, accepted = await site.connect()
    deaf[1].transport.pause_reading()
    writing = asyncio.create_task(write(accepted, bytes(64 * MB)))
    other, served = await site.connect()
    for _ in range(10):
        await write(served, b"answer")
        assert await read(other, 6) == b"answer"
    assert not writing.done()
    accepted[1].transport.abort()
    with contextlib.suppress(ConnectionError):
        await writing
    await eventually(lambda: site.connections == 1)


async def test_server_that_does_not_read_holds_its_client_back(started):
    site = await started()
    client, accepted = await site.connect()
    site.admit(accepted)
    accepted[1].transport.pause_reading()
    writing = asyncio.create_task(write(client, bytes(64 * MB)))
    other, served = await site.connect()
    await write(other, b"question")
    assert await read(served, 8) == b"question"
    assert not writing.done()
    accepted[1].transport.resume_reading()
    assert await read(accepted, MB) == bytes(MB)
    accepted[1].transport.abort()
    with contextlib.suppress(ConnectionError):
        await writing


async def test_only_the_connection_that_sends_too_much_is_closed(started):
    site = await started(connection=64 * KB)
    agents = [await site.connect(4 * KB) for _ in range(100)]
    flood, _ = await site.connect()
    with contextlib.suppress(ConnectionError):
        await write(flood, bytes(8 * MB))
    await ended(flood)
    await eventually(lambda: site.closed == {"127.0.0.1": 1})
    for client, accepted in agents:
        await write(client, b"report")
        assert await read(accepted, 6) == b"report"


async def test_admitted_client_may_send_more(started):
    site = await started(connection=64 * KB)
    client, accepted = await site.connect(60 * KB)
    site.admit(accepted)
    await asyncio.gather(write(client, bytes(MB)), read(accepted, MB))
    assert site.closed == {}


async def test_silent_clients_are_closed_and_do_not_reach_the_server(started):
    site = await started(silence=0.2)
    silent = [await site.dial() for _ in range(50)]
    for streams in silent:
        assert await read(streams) == b""
    assert site.accepted.empty()


async def test_client_beyond_the_number_of_connections_is_closed(started):
    site = await started(connections=4)
    for _ in range(4):
        _, accepted = await site.connect()
        site.admit(accepted)
    await ended(await site.dial())
    accepted[1].close()
    await eventually(lambda: site.connections == 3)
    await site.connect()


async def test_thousands_of_connections_that_come_and_go_leave_nothing(started):
    site = await started(address=64 * MB)
    for number in range(2_000):
        _, writer = await site.dial()
        if number % 2:
            writer.write(b"x")
        writer.close()
    await eventually(site.left)
    assert not site.relay._ends
    assert not site.relay._unadmitted._address_of


async def test_clients_wait_while_there_are_no_more_files(started):
    site = await started()
    clients = [socket.create_connection(("127.0.0.1", site.port)) for _ in range(20)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))  # the numbers above may be in use
    try:
        await eventually(lambda: site.relay._rests_until > 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await eventually(lambda: site.connections == len(clients))
    for client in clients:
        client.close()


async def test_error_of_one_connection_ends_that_one(started, monkeypatch):
    site = await started()
    other, served = await site.connect()
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
    client, _ = await site.connect()
    send = site.relay._send

    def failing(end, data):
        if data == b"x":
            raise ValueError
        send(end, data)

    monkeypatch.setattr(site.relay, "_send", failing)
    await write(client, b"x")
    await ended(client)
    assert [type(context["exception"]) for context in told] == [ValueError]
    await write(other, b"question")
    assert await read(served, 8) == b"question"


class FullEpoll:
    """An epoll set that takes no further socket."""

    def __init__(self, epoll):
        self._epoll = epoll

    def __getattr__(self, name):
        return getattr(self._epoll, name)

    def register(self, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("end", ["client", "grpc"])
async def test_connection_that_cannot_be_watched_ends_alone(started, end):
    """With fs.epoll.max_user_watches reached."""
    site = await started()
    other, served = await site.connect()
    waiting = await site.dial() if end == "grpc" else None
    await eventually(lambda: site.connections == (2 if waiting else 1))
    epoll = site.relay._epoll
    site.relay._epoll = FullEpoll(epoll)
    failing = waiting or await site.dial()
    await write(failing, b"x")
    await ended(failing)
    await write(other, b"question")
    assert await read(served, 8) == b"question"
    site.relay._epoll = epoll


async def test_address_in_use_is_named(started):
    site = await started()
    with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{site.port}: .*in use"):
        Relay(Bounds(), print).listen(Address("127.0.0.1", site.port))
