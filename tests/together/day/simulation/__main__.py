"""Simulates a day of two replicas in minutes: `python -P tests/together/day/simulation --seed 1 --seconds 600`.

Prints a JSON line with measurements at each quiet period, and one at the end with the violations found. With
PYTHONHASHSEED=0 a seed is reproducible.
"""

import simulated_time  # noqa: I001  (before anything that might read a clock)

import argparse
import asyncio
import json
import logging
import os
import random
import sys
import tempfile
from pathlib import Path

from invariants import InvariantChecks, measures
from cluster import Admin, Server
from gangs import Gangs
from nodes import Agent
from replica import Replica
from fault_schedule import NAMES, STILL, FaultSchedule

from plimsoll import logs


class World:
    """The state of the simulation, shared by fault schedule and invariants."""

    def __init__(self, rng, folder):
        self.clock = simulated_time.clock
        self.rng = rng
        self.server = Server()
        self.admin = Admin(self.server)
        self.replicas = [Replica(name, folder) for name in ("east", "west")]
        self.agents = {}
        self._said = {}
        self._stderr = os.dup(2)

    async def start(self, replica):
        """With a stream of every agent."""
        await replica.start()

    async def add_node(self, name):
        await self.admin.add_node(name, self.clock)
        agent = self.agents[name] = Agent(name, self.clock, self.rng)
        agent.said = self._said.setdefault(name, {})
        for replica in self.replicas:
            agent.connect(replica)

    async def drop_node(self, name):
        await self.admin.drop_node(name)
        if (agent := self.agents.pop(name, None)) is not None:
            await agent.close()
        self._said.pop(name, None)

    def said(self, replica, node, since):
        """A node's reports to a replica since then."""
        told = self._said.get(node, {}).get(replica.name, ())
        return [snapshot for at, snapshot in told if at >= since]

    def disk_is_full(self, *, full):
        """The handler of stderr."""
        target = os.open("/dev/full", os.O_WRONLY) if full else os.dup(self._stderr)
        os.dup2(target, 2)
        os.close(target)


class UnexpectedLogs(logging.Handler):
    """Unexpected log lines: any with a traceback."""

    def __init__(self, say):
        super().__init__()
        self._say = say

    def emit(self, record):
        body = record.msg if isinstance(record.msg, dict) else {}
        if record.exc_info or body.get("exc_info") or "exception" in body:
            self._say(f"logged with a traceback: {record.getMessage()[:2000]}")


async def scheduler(world, checks):
    """Send requests about every policy to every replica continuously."""
    while True:
        nodes = sorted(world.admin.nodes())
        for replica in world.replicas:
            if replica.up:
                for name in NAMES:
                    checks.check_answer(replica, name, nodes, world.said)
        await asyncio.sleep(world.rng.uniform(0.5, 2.5))


def tell(found):
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


async def look(world, checks, loops):
    """Check the invariants of a quiet period."""
    checks.check_calm(world.replicas, world.agents)
    world.gangs.check_calm(world.replicas)
    written = checks.writes
    await asyncio.sleep(STILL)
    if checks.writes != written:
        checks.say(f"{checks.writes - written} changes of labels, though nothing else has changed")
    for replica in world.replicas:
        for sentence in replica.check():
            checks.say(f"a loop of {replica.name} broke: {sentence}")
    for agent in world.agents.values():
        agent.check()
    for task in loops:
        if task.done():
            task.result()


async def live(given, folder):
    rng = random.Random(given.seed)
    world = World(rng, folder)
    checks = InvariantChecks(world.admin, world.server, world.clock)
    logging.getLogger().addHandler(UnexpectedLogs(checks.say))
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: checks.say(f"unhandled: {context}"))
    await world.server.start()
    await world.admin.start()
    world.gangs = Gangs(world, rng, checks.say)
    faults = FaultSchedule(world, rng, given.pause)
    for replica in world.replicas:
        await world.start(replica)
    asking = asyncio.create_task(scheduler(world, checks))
    placing = asyncio.create_task(world.gangs.schedule())
    begin = world.clock.now
    await faults.settle()
    while world.clock.now - begin < given.seconds and not checks.wrong:
        async with asyncio.timeout(given.part + 3600):  # a hang should print where it is
            await faults.rage(given.part)
            await faults.settle()
        await look(world, checks, (asking, placing))
        tell({"at": round(world.clock.now - begin), **measures(len(asyncio.all_tasks()))})
    asking.cancel()
    placing.cancel()
    for agent in world.agents.values():
        await agent.close()
    for replica in world.replicas:
        await replica.kill()
    await world.admin.close()
    await world.server.close()
    return {
        "seed": given.seed,
        "lived": round(world.clock.now - begin),
        "wrong": checks.wrong[:20],
        "answers": checks.answers,
        "unready": checks.unready,
        "label_writes": checks.writes,
        "evictions": checks.evictions,
        "gates_lifted": world.gangs.lifted,
        "events": faults.counts,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0, help="of simulated time")
    parser.add_argument("--part", type=float, default=120.0, help="seconds of storm before a calm")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two faults")
    given = parser.parse_args()
    logs.setup("info")
    loop = simulated_time.Loop()
    asyncio.set_event_loop(loop)
    with tempfile.TemporaryDirectory() as folder:
        found = loop.run_until_complete(live(given, Path(folder)))
    tell(found)


if __name__ == "__main__":
    main()
