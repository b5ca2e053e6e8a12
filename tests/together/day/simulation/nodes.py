"""Simulated agents, connected below gRPC: the server's own method and the real codec, without a network."""

import asyncio
import contextlib
import math
from types import SimpleNamespace

from evaluator.core.sources.agents.calls import Caller
from wire import codec, telemetry_pb2

INTERVAL = 3.0


class TurnedAwayError(Exception):
    """The server ended a stream."""


class Call:
    """The call of one stream, and the agent's end of it."""

    def __init__(self, node):
        self.told = asyncio.Queue()
        self._said = asyncio.Queue()
        self.caller = Caller(f"memory:{node}")

    async def read(self):
        return await self._said.get()

    async def write(self, message):
        self.told.put_nowait(telemetry_pb2.Subscription.FromString(message))

    async def abort(self, code, sentence):
        raise TurnedAwayError(f"{code}: {sentence}")

    def say(self, report):
        self._said.put_nowait(report.SerializeToString())

    def hang_up(self):
        self._said.put_nowait(None)


class Agent:
    """The agent of one node, with a stream to each running replica.

    `readings` holds per metric a number, an int of series as `codec` has them (`several`), or nothing. `silent`: its
    streams are open without reports; `late`: seconds until a report arrives.
    """

    def __init__(self, name, clock, rng):
        self.name = name
        self.readings = {}
        self.several = {}
        self.unread = frozenset()
        self.silent = False
        self.off = False
        self.late = 0.0
        self.said = {}
        """By replica: (arrival time, report), the latest last."""
        self._clock = clock
        self._rng = rng
        self._woken = asyncio.Event()
        self._streams = {}

    def changed(self):
        """Change the readings as a collector run would."""
        self._woken.set()
        self._woken = asyncio.Event()

    def connect(self, replica):
        self._streams[replica.name] = asyncio.create_task(self._keep(replica))

    async def disconnect(self, replica):
        if (task := self._streams.pop(replica.name, None)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def check(self):
        """Raise the errors of streams that should have been reopened."""
        for task in self._streams.values():
            if task.done():
                task.result()

    async def close(self):
        for task in self._streams.values():
            task.cancel()
        await asyncio.gather(*self._streams.values(), return_exceptions=True)
        self._streams.clear()

    def _snapshot(self, metrics):
        return codec.Snapshot(
            {name: self.readings[name] for name in metrics if name in self.readings},
            {name: count for name, count in self.several.items() if name in metrics},
            self.unread & frozenset(metrics),
        )

    async def _keep(self, replica):
        while True:
            if not self.off and replica.up:
                with contextlib.suppress(TurnedAwayError):
                    await self._session(replica)
            await asyncio.sleep(self._rng.uniform(0.2, 2.0))

    async def _session(self, replica):
        call, intake = Call(self.name), replica.intake
        serving = asyncio.create_task(intake(call))
        try:
            call.say(telemetry_pb2.Report(node_name=self.name, agent_version="soak"))
            await self._talk(call, serving, replica, intake)
            if serving.done():
                await serving
        finally:
            # As when a client disconnects.
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _talk(self, call, serving, replica, intake):
        asked, last, waking = None, None, None
        telling = asyncio.ensure_future(call.told.get())
        try:
            while not serving.done() and not self.off and replica.intake is intake:
                if asked is not None and not self.silent:
                    now = self._snapshot(asked.metrics)
                    report = telemetry_pb2.Report(node_name=self.name, generation=asked.generation)
                    codec.encode(report, asked.metrics, now, last)
                    last = now
                    if self.late:
                        await asyncio.sleep(self.late)
                    call.say(report)
                    self._note(replica, now)
                waking = asyncio.ensure_future(self._woken.wait())
                await asyncio.wait(
                    {telling, waking, serving},
                    timeout=INTERVAL,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                waking.cancel()
                if telling.done():
                    asked, last = telling.result(), None
                    telling = asyncio.ensure_future(call.told.get())
        finally:
            for waiting in (telling, waking):
                if waiting is not None:
                    waiting.cancel()

    def _note(self, replica, snapshot):
        told = self.said.setdefault(replica.name, [])
        told.append((self._clock.now, dict(snapshot.values)))
        del told[:-40]


def random_readings(rng, metrics):
    """Random values: mostly small numbers, sometimes NaN or infinity, or none."""
    found = SimpleNamespace(readings={}, several={}, unread=set())
    for metric in metrics:
        dice = rng.random()
        if dice < 0.03:
            found.readings[metric] = rng.choice((math.nan, math.inf, -math.inf))
        elif dice < 0.06:
            found.several[metric] = rng.randint(2, 9)
        elif dice < 0.09:
            found.unread.add(metric)
        elif dice > 0.12:
            found.readings[metric] = float(rng.randint(0, 9))
    return found
