"""A scripted evaluator over real gRPC, and a fake collector."""

import asyncio
from dataclasses import dataclass, field

import grpc

from collectors.interface.sample import Family, Sample
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


def said(report, *metrics):
    """The content of a report: metric → value, ("several", n), "absent" or "unread"."""
    delta = codec.decode(report, metrics)
    return (
        dict.fromkeys(delta.absent, "absent")
        | dict.fromkeys(delta.unread, "unread")
        | {metric: ("several", count) for metric, count in delta.several.items()}
        | dict(delta.values)
    )
