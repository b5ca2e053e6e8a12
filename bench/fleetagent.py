"""A simulated agent, and the process that runs thousands of them; used by fleet.py."""

import asyncio
import math
import random
import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import grpc
import numpy as np

from bench.authority import Authority
from plimsoll.backoff import Backoff
from wire import telemetry_pb2

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


class Habits(NamedTuple):
    """Seconds between two reports of a node (0: as fast as possible; the evaluator's interval is ignored), and the share of
    readings that change in each.

    `value`: that of all readings, reported at once when it changes; NaN: random values.
    """

    interval: float = 10.0
    share: float = 0.01
    value: float = math.nan


class Column(IntEnum):
    """The state of each agent. Times are those of time.monotonic()."""

    CONNECTED = 0  # 1 while it has a stream and a subscription
    SINCE = 1  # time of the latest connection
    GENERATION = 2  # the latest answered subscription
    TOLD = 3  # when it was received
    ANSWERED = 4  # when the answer was sent
    REPORTS = 5
    LOSSES = 6
    CODE = 7  # gRPC status of the latest one, as a number


HABITS = len(Habits._fields)
COLUMNS = len(Column)


def run(
    address: str,
    nodes: Sequence[str],
    mine: slice,
    shared: Any,
    orders: Any,
    authority: Authority | None,
) -> None:
    """Run the agents of the nodes in `mine` until killed."""
    rows = np.frombuffer(shared).reshape(-1, COLUMNS)[mine]

    async def all_of_them() -> None:
        gate = asyncio.Semaphore(_AT_ONCE)
        agents = [
            Agent(address, node, row, orders, authority, gate)
            for node, row in zip(nodes[mine], rows, strict=True)
        ]
        await asyncio.gather(_watch(orders, agents), *(agent.run() for agent in agents))

    asyncio.run(all_of_them())


async def _watch(orders: Any, agents: Sequence["Agent"]) -> None:
    """Wake the agents when their habits have changed, since shared memory has no notifications."""
    before = bytes(orders)
    while True:
        await asyncio.sleep(0.1)
        if (now := bytes(orders)) != before:  # NaN differs from itself
            before = now
            for agent in agents:
                agent.wake()


class Agent:
    """One node's agent. `row`: its row of the shared state."""

    def __init__(
        self,
        address: str,
        node: str,
        row: Any,
        orders: Any,
        authority: Authority | None,
        gate: asyncio.Semaphore,
    ) -> None:
        self._address = address
        self._node = node
        self._row = row
        self._orders = orders
        self._authority = authority
        self._gate = gate
        self._credentials: grpc.ChannelCredentials | None = None
        self._rng = random.Random(node)
        self._wanted: telemetry_pb2.Subscription | None = None
        self._new = False
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Connect repeatedly, with the real agent's backoff."""
        backoff = Backoff(self._rng.random, first=0.25, longest=15.0)
        refused = Backoff(self._rng.random, first=5.0, longest=120.0)
        while True:
            code = await self._attempt()
            self._row[Column.CODE] = code.value[0] if code else 0
            if self._row[Column.CONNECTED] and time.monotonic() - self._row[Column.SINCE] > 10:
                backoff.reset()
                refused.reset()
            self._row[Column.CONNECTED] = 0
            self._row[Column.LOSSES] += 1
            await asyncio.sleep((refused if code in _REFUSED else backoff).next())

    async def _attempt(self) -> grpc.StatusCode | None:
        """Run one stream to its end; return its status."""
        async with self._channel() as channel:
            stream: Any = channel.stream_stream(_METHOD)()
            try:
                async with self._gate:
                    self._wanted = await self._introduced(stream)
                if self._wanted is not None:
                    await self._session(stream)
            except grpc.aio.AioRpcError as error:
                return error.code()
            except asyncio.InvalidStateError:
                return None  # the stream was lost before a report was written
        return None

    def _channel(self) -> grpc.aio.Channel:
        if self._authority is None:
            return grpc.aio.insecure_channel(self._address, _OPTIONS)
        if self._credentials is None:
            authority = self._authority
            self._credentials = grpc.ssl_channel_credentials(
                authority.read("ca.crt"), authority.read("node.key"), authority.node(self._node)
            )
        return grpc.aio.secure_channel(self._address, self._credentials, _OPTIONS)

    async def _introduced(self, stream: Any) -> telemetry_pb2.Subscription | None:
        report = telemetry_pb2.Report(node_name=self._node, agent_version="bench")
        await stream.write(report.SerializeToString())
        return self._heard(await stream.read())

    def _heard(self, message: Any) -> telemetry_pb2.Subscription | None:
        if message is grpc.aio.EOF:
            return None
        self._row[Column.TOLD] = time.monotonic()
        return telemetry_pb2.Subscription.FromString(message)

    async def _session(self, stream: Any) -> None:
        self._row[Column.SINCE] = time.monotonic()
        self._row[Column.CONNECTED] = 1
        listening = asyncio.create_task(self._listen(stream))
        try:
            self._new = True
            while not listening.done():
                await self._report(stream)
        finally:
            listening.cancel()
            await asyncio.wait([listening])
        if not listening.cancelled():
            listening.result()

    async def _listen(self, stream: Any) -> None:
        while (heard := self._heard(await stream.read())) is not None:
            self._wanted, self._new = heard, True
            self._woken.set()
        self._new = True  # cancelled by the server
        self._woken.set()

    async def _report(self, stream: Any) -> None:
        """Send the due report: all readings after a subscription, else changed ones. Returns the time of the next."""
        assert self._wanted is not None
        full, self._new = self._new, False
        wanted, habits = self._wanted, Habits(*self._orders[:])
        size = len(wanted.metrics)
        report = telemetry_pb2.Report(node_name=self._node, generation=wanted.generation, full=full)
        random_values = math.isnan(habits.value)
        whole = full or not random_values
        chosen = range(size) if whole else self._changed(size, habits.share)
        report.indices.extend(chosen)
        report.values.extend(
            self._rng.random() * 100 if random_values else habits.value for _ in chosen
        )
        await stream.write(report.SerializeToString())
        self._row[Column.REPORTS] += 1
        if full:
            self._row[Column.ANSWERED] = time.monotonic()
            self._row[Column.GENERATION] = wanted.generation
        await self._rest(habits, full)

    def _changed(self, size: int, share: float) -> Sequence[int]:
        exact = size * share
        count = int(exact) + (self._rng.random() < exact % 1)
        return self._rng.sample(range(size), min(size, count))

    async def _rest(self, habits: Habits, full: bool) -> None:
        """Wait until the next report; a random time after the first of a stream and after new habits, to spread reports."""
        interval = habits.interval
        if interval <= 0:
            await asyncio.sleep(0)
            return
        pause = interval * self._rng.random() if full else interval
        while not self._new:
            self._woken.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            except TimeoutError:
                return
            now = Habits(*self._orders[:])
            if not math.isnan(now.value) and now.value != habits.value:
                return
            pause = now.interval * self._rng.random()

    def wake(self) -> None:
        """Apply changed habits."""
        self._woken.set()
