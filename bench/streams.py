"""Cost of thousands of agents: connecting at once, idle, reporting at full speed, and after new subscriptions.

A real evaluator with mutual TLS and a connection per agent, all on this machine, so the agents share its CPUs. Prints one
JSON line per case, times in seconds, memory in MB (10^6 bytes); `queued` is the time its threads waited for a CPU.

Above the constant limit of streams, two per agent, the evaluator runs with a higher one.

    python -P bench/streams.py [--agents 5000] [--policies 50] [--seconds 12]
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import grpc

from bench import commandline
from bench.commandline import Line
from bench.fleet import Fleet, Spread, names
from bench.fleetagent import Column, Habits
from bench.stage import Stage, sandbox_plane, until
from evaluator.core.sources.agents.options import AgentLimits
from wire import telemetry_pb2, telemetry_pb2_grpc

METRICS = 40
RULES = 4
"""Metrics of each policy."""
ROUNDS = 3
PATIENCE = 60.0


class Bench:
    """The cases; each builds on the previous one."""

    def __init__(self, stage: Stage, fleet: Fleet, policies: int, seconds: float) -> None:
        self.stage = stage
        self.fleet = fleet
        self.policies = policies
        self.seconds = seconds
        self.agents = len(fleet.nodes)
        self._edits = 0

    async def run(self) -> AsyncIterator[Line]:
        """Yield the line of each case."""
        for number in range(self.policies):
            await self.stage.policy(f"policy-{number:02}", metrics(number))
        await self.stage.start()
        await until(self._subscribed)
        yield self._line("storm", aim="lost <= 0", **await self.storm())
        yield self._line(
            "at_rest", aim="cores <= 0.15 loops, rss <= 600", **await self.rest(share=0.0)
        )
        yield self._line("readings_change", **await self.rest(share=0.01))
        alone, beside = await self.subscriptions()
        yield self._line("subscription", **alone)
        yield self._line("subscription_beside_a_peer_that_does_not_read", **beside)
        yield self._line("intake", aim="lost <= 0", **await self.intake())
        yield self._line("restart", **await self.restart())

    def _line(self, case: str, *, aim: str = "", **figures: Any) -> Line:
        line = {"benchmark": "streams", "case": case, "agents": self.agents}
        rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}
        return {**line, **rounded, "aim": aim}

    async def _subscribed(self) -> bool:
        return await self.stage.metric("plimsoll_policies") == self.policies

    async def storm(self) -> dict[str, Any]:
        """Connect all agents at once."""
        before = self.stage.usage()
        self.fleet.start()
        await self._all_back()
        after = self.stage.usage()
        return {
            "seconds": after.at - before.at,
            "lost": self.fleet.losses,
            "reasons": self.fleet.reasons,
            "cpu_ms_per_agent": 1000 * (after.cpu - before.cpu) / self.agents,
            "rss": after.rss,
            "kb_per_agent": 1000 * (after.rss - before.rss) / self.agents,
            "queued": after.queued - before.queued,
            "descriptors": after.descriptors,
        }

    async def _all_back(self) -> None:
        """Wait until every agent has a stream and has reported, and the evaluator has decided."""
        await self.fleet.until(connected=self.agents, generation=2)
        await until(lambda: self.stage.answers("/readyz"), pause=0.02)

    async def rest(self, share: float) -> dict[str, Any]:
        """Report at a production interval."""
        self.fleet.habits = Habits(10.0, share)
        await asyncio.sleep(self.seconds / 6)
        before, reports = self.stage.usage(), await self._taken_in()
        await asyncio.sleep(self.seconds)
        after, taken = self.stage.usage(), await self._taken_in() - reports
        return {
            "cores": after.cores_since(before),
            "queued": after.queued - before.queued,
            "reports_per_s": taken / (after.at - before.at),
            "cpu_us_per_report": 1e6 * (after.cpu - before.cpu) / max(1.0, taken),
            "rss": after.rss,
            "peak": after.peak,
        }

    async def _taken_in(self) -> float:
        return await self.stage.metric("plimsoll_agent_reports_total")

    async def subscriptions(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Add a metric to a policy, and wait until every agent has received the subscription and reported.

        Alternates without and with a peer that does not read, to compare under the same load.
        """
        alone, beside = [], []
        for _ in range(ROUNDS):
            alone.append(await self._edit())
            async with self._deaf_peer():
                beside.append(await self._edit())
        return _middle(alone), _middle(beside)

    async def _edit(self) -> tuple[Spread, Spread]:
        self._edits += 1
        begin = time.monotonic()
        await self.stage.policy("policy-edited", [f"edited_{self._edits}"])
        await self._all_told(begin)
        return self.fleet.told(begin), self.fleet.answered(begin)

    async def _all_told(self, begin: float) -> None:
        async def answered() -> bool:
            return bool((self.fleet.column(Column.ANSWERED) > begin).all())

        async with asyncio.timeout(PATIENCE):
            await until(answered, pause=0.02)

    async def intake(self) -> dict[str, Any]:
        """Report all readings changed, at full speed: at least one report per agent."""
        rest, self.fleet.habits = self.fleet.habits, Habits(0.0, 1.0)
        await asyncio.sleep(self.seconds / 6)
        before, reports = self.stage.usage(), await self._taken_in()
        await asyncio.sleep(self.seconds / 2)

        async def one_each() -> bool:
            return await self._taken_in() - reports >= self.agents

        await until(one_each, pause=0.02)
        after, taken = self.stage.usage(), await self._taken_in() - reports
        self.fleet.habits = rest
        return {
            "reports": taken,
            "reports_per_s": taken / (after.at - before.at),
            "values_per_report": min(METRICS, self.policies * RULES),
            "cores": after.cores_since(before),
            "cpu_us_per_report": 1e6 * (after.cpu - before.cpu) / max(1.0, taken),
            "peak": after.peak,
            "lost": self.fleet.losses,
        }

    async def restart(self) -> dict[str, Any]:
        """Kill the evaluator and start it again at once."""
        await self.stage.kill()
        begin, before = time.monotonic(), self.fleet.losses
        await self.stage.start()
        listening = time.monotonic()
        await self._all_back()
        since = self.fleet.column(Column.SINCE)
        return {
            "listening_after": listening - begin,
            "ready_after": time.monotonic() - begin,
            "last_stream_after": float(since.max()) - begin,
            "attempts_per_agent": (self.fleet.losses - before) / self.agents,
            "peak": self.stage.usage().peak,
        }

    @contextlib.asynccontextmanager
    async def _deaf_peer(self) -> AsyncIterator[None]:
        """Run one more agent that opens a stream and then does not read."""
        node, authority = "deaf", self.stage.authority
        await self.stage.node(node)
        credentials = grpc.ssl_channel_credentials(
            authority.read("ca.crt"), authority.read("node.key"), authority.node(node)
        )
        address = self.stage.ports["agents"].address
        async with grpc.aio.secure_channel(address, credentials) as channel:
            stub = telemetry_pb2_grpc.TelemetryStub(channel)  # type: ignore[no-untyped-call]
            stream = stub.Stream()
            await stream.write(telemetry_pb2.Report(node_name=node))
            yield
            if stream.done():
                raise RuntimeError(
                    f"the peer that does not read was rejected: {await stream.code()}"
                )
        # The next start must not wait for its first report.
        await self.stage.remove(node)


def _middle(rounds: list[tuple[Spread, Spread]]) -> dict[str, Any]:
    """Return the median round."""
    told, answered = sorted(rounds, key=lambda one: one[1].longest)[len(rounds) // 2]
    return {"told": asdict(told), "answered": asdict(answered)}


def metrics(policy: int) -> list[str]:
    """Return the metrics of one policy."""
    return [f"metric_{(RULES * policy + rule) % METRICS:02}" for rule in range(RULES)]


async def measured(
    agents: int = 5000, policies: int = 50, seconds: float = 12.0
) -> AsyncIterator[Line]:
    """Yield the line of each case. `seconds`: over which rest is measured."""
    more = {"streams": 2 * agents} if 2 * agents > AgentLimits().streams else {}
    nodes, flags = names(agents), ("--staleAfter=60s", "--v=2")
    with tempfile.TemporaryDirectory() as folder, sandbox_plane(Path(folder), nodes) as plane:
        async with Stage(plane, flags, **more) as stage:
            address, authority = stage.ports["agents"].address, stage.authority
            fleet = Fleet(address, nodes, Habits(), authority=authority)
            try:
                async for line in Bench(stage, fleet, policies, seconds).run():
                    yield line
            finally:
                fleet.stop()


if __name__ == "__main__":
    commandline.run(measured)
