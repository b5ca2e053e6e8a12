"""Simulated agents, whose readings a test sets."""

import asyncio
import contextlib

import grpc

from plimsoll.text import NearNames
from wire import codec, telemetry_pb2, telemetry_pb2_grpc

RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
"""An agent waits at most 15 s between two attempts; gRPC's own backoff grows to two minutes without a server."""


class Fleet:
    """Simulated agents: one stream per node with values set by the test."""

    def __init__(self, address, *, period=1.0):
        """`period`: seconds after which readings are reported again; often enough that none turns stale."""
        self._address = address
        self._period = period
        self._values = {}
        self._tasks = {}
        self._wake = {}

    def say(self, node, **values):
        """Set this node's readings; an omitted metric is absent."""
        self._values[node] = values
        if node not in self._tasks:
            self._wake[node] = asyncio.Event()
            self._tasks[node] = asyncio.create_task(self._run(node))
        self._wake[node].set()

    async def silence(self, node):
        """Stop this node's reports."""
        task = self._tasks.pop(node)
        task.cancel()
        await asyncio.wait([task])

    async def close(self):
        for node in tuple(self._tasks):
            await self.silence(node)

    async def _run(self, node):
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                async with grpc.aio.insecure_channel(self._address, RECONNECT) as channel:
                    stub = telemetry_pb2_grpc.TelemetryStub(channel)
                    await self._stream(node, stub.Stream(wait_for_ready=True))
            await asyncio.sleep(0.1)

    async def _stream(self, node, stream):
        """Answer each subscription in full, and report each change."""
        await stream.write(telemetry_pb2.Report(node_name=node))
        asked = await stream.read()
        reading = asyncio.ensure_future(stream.read())
        try:
            while asked is not grpc.aio.EOF:
                self._wake[node].clear()
                await stream.write(self._report(node, asked))
                waking = asyncio.ensure_future(self._wake[node].wait())
                await asyncio.wait(
                    {reading, waking}, timeout=self._period, return_when="FIRST_COMPLETED"
                )
                waking.cancel()
                if reading.done():
                    asked = reading.result()
                    reading = asyncio.ensure_future(stream.read())
        finally:
            reading.cancel()

    def _report(self, node, asked):
        values = self._values[node]
        known = [index for index, name in enumerate(asked.metrics) if name in values]
        report = telemetry_pb2.Report(
            node_name=node,
            generation=asked.generation,
            full=True,
            indices=known,
            values=[float(values[asked.metrics[index]]) for index in known],
        )
        names = NearNames(values)
        absent = [name for name in asked.metrics if name not in values]
        codec.add_similar(report, asked.metrics, {name: names.find(name) for name in absent})
        return report
