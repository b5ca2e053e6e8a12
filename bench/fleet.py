"""Thousands of simulated agents that use the real protocol with one evaluator, each on its own mutual TLS connection.

Each opens a stream, receives the subscription, reports it in full, then reports changed readings at each interval, or a
heartbeat. After a loss it reconnects with the real agent's backoff. They run in a few separate processes, so that their CPU
time is not counted as the evaluator's:

    with Fleet("127.0.0.1:9091", nodes, authority, interval=10.0) as fleet:
        await fleet.until_connected(timeout=120.0)
        fleet.share = 0.01
        print(fleet.reports)
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from multiprocessing.context import ForkServerProcess
from typing import Any, NamedTuple, Self

import grpc
import numpy as np

from bench.authority import Authority
from bench.processes import FORKED
from plimsoll.backoff import Backoff
from wire import telemetry_pb2

_PROCESSES = 2
_METHOD = "/plimsoll.telemetry.v1.Telemetry/Stream"
_AT_ONCE = 64
"""Concurrent connection attempts of one process; more would wait in the kernel's queues."""
_REFUSED = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
# The agent's options, and a connection per channel, which gRPC would share within a process.
_OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]


class Column(IntEnum):
    """The state of each agent, in shared memory."""

    CONNECTED = 0  # 1 while it has a stream and a subscription
    REPORTS = 1
    LOSSES = 2  # streams that were lost or failed
    CODE = 3  # gRPC status of the latest one, as a number


class _Reporting(NamedTuple):
    """How agents report. `interval`: seconds between two reports; `share`: shared memory, the share of readings that change."""

    address: str
    authority: Authority
    interval: float
    share: Any


class Fleet:
    """Agents of these nodes, as a context manager. Reading their state costs them nothing."""

    def __init__(
        self, address: str, nodes: Sequence[str], authority: Authority, *, interval: float
    ) -> None:
        self.nodes = list(nodes)
        self.interval = interval
        self._shared = FORKED.Array("d", len(self.nodes) * len(Column), lock=False)
        self._share = FORKED.Value("d", 0.0, lock=False)
        self._reporting = _Reporting(address, authority, interval, self._share)
        self._table = _table(self._shared)
        self._processes: list[ForkServerProcess] = []

    @property
    def share(self) -> float:
        """The share of readings that change in each report."""
        return float(self._share.value)

    @share.setter
    def share(self, wanted: float) -> None:
        self._share.value = wanted

    def __enter__(self) -> Self:
        count = max(1, min(_PROCESSES, len(self.nodes)))
        for number in range(count):
            arguments = (self.nodes, slice(number, None, count), self._shared, self._reporting)
            process = FORKED.Process(target=_run, args=arguments, daemon=True)
            process.start()
            self._processes.append(process)
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()

    @property
    def connected(self) -> int:
        """Return the number of agents with a stream and a subscription."""
        return int(self._table[:, Column.CONNECTED].sum())

    @property
    def reports(self) -> int:
        """Return the number of reports sent."""
        return int(self._table[:, Column.REPORTS].sum())

    @property
    def losses(self) -> int:
        """Return the number of streams that were lost or failed."""
        return int(self._table[:, Column.LOSSES].sum())

    @property
    def reasons(self) -> dict[str, int]:
        """Return the count of agents by the gRPC status of their latest loss."""
        lost = self._table[self._table[:, Column.LOSSES] > 0]
        names = {code.value[0]: code.name for code in grpc.StatusCode}
        return dict(Counter(names[int(row[Column.CODE])] for row in lost))

    async def until_connected(self, timeout: float) -> None:
        """Wait until all agents are connected. Raises TimeoutError."""
        end = time.monotonic() + timeout
        while self.connected < len(self.nodes):
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{self.connected} of {len(self.nodes)} agents are connected after {timeout:g} s, "
                    f"{self.losses} attempts failed: {self.reasons}"
                )
            await asyncio.sleep(0.02)


def _table(shared: Any) -> Any:
    """Return shared memory as an array with a row per agent."""
    return np.frombuffer(shared).reshape(-1, len(Column))


def _run(nodes: Sequence[str], mine: slice, shared: Any, reporting: _Reporting) -> None:
    """Run the agents of the nodes in `mine` until killed."""

    async def run_all() -> None:
        gate = asyncio.Semaphore(_AT_ONCE)
        rows = zip(nodes[mine], _table(shared)[mine], strict=True)
        await asyncio.gather(*(_Agent(node, row, reporting, gate).run() for node, row in rows))

    asyncio.run(run_all())


class _Agent:
    """One node's agent. `row`: its row of the shared state; `gate`: limits concurrent connection attempts."""

    def __init__(self, node: str, row: Any, reporting: _Reporting, gate: asyncio.Semaphore) -> None:
        self._node = node
        self._row = row
        self._reporting = reporting
        self._gate = gate
        self._credentials: grpc.ChannelCredentials | None = None
        self._rng = random.Random(node)
        self._wanted: telemetry_pb2.Subscription | None = None
        self._woken = asyncio.Event()
        """Set by a new subscription, and by the end of the stream."""

    async def run(self) -> None:
        """Connect repeatedly, with the real agent's backoff."""
        backoff = Backoff(self._rng.random, first=0.25, longest=15.0)
        refused = Backoff(self._rng.random, first=5.0, longest=120.0)
        while True:
            begun = time.monotonic()
            code = await self._attempt()
            self._row[Column.CODE] = code.value[0] if code else 0
            if self._row[Column.CONNECTED] and time.monotonic() - begun > 10:
                backoff.reset()
                refused.reset()
            self._row[Column.CONNECTED] = 0
            self._row[Column.LOSSES] += 1
            await asyncio.sleep((refused if code in _REFUSED else backoff).next())

    async def _attempt(self) -> grpc.StatusCode | None:
        """Run one stream to its end; return its status."""
        async with self._channel() as channel:
            try:
                async with self._gate:
                    stream: Any = channel.stream_stream(_METHOD)()
                    report = telemetry_pb2.Report(node_name=self._node, agent_version="bench")
                    await stream.write(report.SerializeToString())
                    self._wanted = await _subscription(stream)
                if self._wanted is not None:
                    await self._session(stream)
            except grpc.aio.AioRpcError as error:
                return error.code()
            except asyncio.InvalidStateError:
                return None  # the stream was lost before a report was written
        return None

    def _channel(self) -> grpc.aio.Channel:
        authority = self._reporting.authority
        if self._credentials is None:
            self._credentials = grpc.ssl_channel_credentials(
                authority.read("ca.crt"), authority.read("node.key"), authority.node(self._node)
            )
        return grpc.aio.secure_channel(self._reporting.address, self._credentials, _OPTIONS)

    async def _session(self, stream: Any) -> None:
        """Report until the stream ends."""
        self._row[Column.CONNECTED] = 1
        listening = asyncio.create_task(self._listen(stream))
        listening.add_done_callback(lambda _: self._woken.set())
        try:
            self._woken.set()
            while not listening.done():
                full = self._woken.is_set()
                self._woken.clear()
                await self._report(stream, full=full)
                await self._rest(full=full)
        finally:
            listening.cancel()
            await asyncio.wait([listening])
        if not listening.cancelled():
            listening.result()

    async def _listen(self, stream: Any) -> None:
        """Receive subscriptions until the server ends the stream."""
        while (wanted := await _subscription(stream)) is not None:
            self._wanted = wanted
            self._woken.set()

    async def _report(self, stream: Any, *, full: bool) -> None:
        """Send all readings, or changed ones."""
        assert self._wanted is not None
        generation, size = self._wanted.generation, len(self._wanted.metrics)
        report = telemetry_pb2.Report(node_name=self._node, generation=generation, full=full)
        chosen = range(size) if full else self._changed(size)
        report.indices.extend(chosen)
        report.values.extend(self._rng.random() * 100 for _ in chosen)
        await stream.write(report.SerializeToString())
        self._row[Column.REPORTS] += 1

    def _changed(self, size: int) -> Sequence[int]:
        exact = size * self._reporting.share.value
        count = int(exact) + (self._rng.random() < exact % 1)
        return self._rng.sample(range(size), min(size, count))

    async def _rest(self, *, full: bool) -> None:
        """Wait until the next report is due; a random part of the interval after a full one, which spreads reports."""
        pause = self._reporting.interval * (self._rng.random() if full else 1.0)
        try:
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            return


async def _subscription(stream: Any) -> telemetry_pb2.Subscription | None:
    """Return the next subscription; None if the server has ended the stream."""
    message = await stream.read()
    return None if message is grpc.aio.EOF else telemetry_pb2.Subscription.FromString(message)
