"""A seeded schedule of faults, second by second, and the quiet periods after them."""

import asyncio

import cluster
import policies
from nodes import Agent, random_readings

STEADY = tuple(f"node-{letter}" for letter in "abcdefgh")
"""Nodes that always exist, or soon again."""
NAMES = tuple(f"policy-{number}" for number in range(5))
CALM = 75.0
"""Seconds without a fault after which all must be as decided: longer than every bound, backoff and lease together."""
STILL = 10.0
"""Seconds after that in which nothing may change."""


class FaultSchedule:
    """All faults: `rage()` for a while, then `settle()`. `pause`: mean seconds between two faults."""

    def __init__(self, world, rng, pause):
        self._world = world
        self._pause = pause
        self._rng = rng
        self._extra = 0
        self._burst_until = 0.0
        self._tasks = set()
        self.counts = {}

    async def rage(self, seconds):
        """Inject a few faults per second."""
        end = self._world.clock.now + seconds
        while self._world.clock.now < end:
            await self._edit_if_due()
            for _ in range(self._rng.choice((0, 1, 1, 2))):
                await self._one()
            hurried = self._world.clock.now < self._burst_until
            await asyncio.sleep(self._rng.uniform(0.5, 1.5) * (1.0 if hurried else self._pause))

    async def _one(self):
        names, weights = zip(*_EVENTS.items(), strict=True)
        name = self._rng.choices(names, weights)[0]
        self.counts[name] = self.counts.get(name, 0) + 1
        await getattr(self, f"_{name}")()

    async def _edit_if_due(self):
        if self._world.clock.now < self._burst_until:
            await self._world.admin.put_policy(
                self._rng.choice(NAMES), policies.random_spec(self._rng)
            )

    async def settle(self):
        """End all faults, restore nodes and policies, and wait for convergence."""
        world = self._world
        await asyncio.gather(*self._tasks, return_exceptions=True)
        world.disk_is_full(full=False)
        world.server.weather.clear()
        for replica in world.replicas:
            if replica.gone:
                await world.start(replica)
        for name in set(world.admin.nodes()) - set(STEADY):
            await world.drop_node(name)
        for name in STEADY:
            if name not in world.admin.nodes():
                await world.add_node(name)
        for agent in world.agents.values():
            agent.off, agent.late = False, 0.0
            agent.silent = self._rng.random() < 0.1
        for name in (*NAMES, *world.admin.policies()):
            if name not in NAMES:
                await world.admin.drop_policy(name)
            elif name not in world.admin.policies():
                await world.admin.put_policy(name, policies.random_spec(self._rng))
        await world.gangs.take_theirs_off(everywhere=True)
        await world.admin.clear_pods_and_events()
        await asyncio.sleep(CALM)

    # Faults of nodes and their agents.

    def _agent(self):
        agents = self._world.agents
        return agents[self._rng.choice(sorted(agents))] if agents else None

    async def _readings_change(self):
        for _ in range(self._rng.randint(1, 4)):
            if (agent := self._agent()) is not None:
                found = random_readings(self._rng, policies.METRICS)
                agent.readings, agent.several = found.readings, found.several
                agent.unread = frozenset(found.unread)
                agent.changed()

    async def _for_a_while(self, agent, name, value, usual):
        if agent is None:
            return
        setattr(agent, name, value)

        async def undo(seconds):
            await asyncio.sleep(seconds)
            setattr(agent, name, usual)

        self._later(undo(self._rng.uniform(1, 60)))

    async def _agent_falls_silent(self):
        await self._for_a_while(self._agent(), "silent", True, False)

    async def _agent_goes_away(self):
        await self._for_a_while(self._agent(), "off", True, False)

    async def _agent_is_late(self):
        await self._for_a_while(self._agent(), "late", self._rng.uniform(0.1, 6.0), 0.0)

    async def _second_stream(self):
        """A second agent reports for a node, as an old one that has not ended."""
        world = self._world
        agent = self._agent()
        if agent is not None:
            double = Agent(agent.name, world.clock, self._rng)
            double.readings, double.several = dict(agent.readings), dict(agent.several)
            double.said = agent.said
            for replica in world.replicas:
                double.connect(replica)
            await asyncio.sleep(self._rng.uniform(0.1, 3))
            await double.close()

    async def _node_is_added(self):
        if len(self._world.admin.nodes()) < 2 * len(STEADY):
            self._extra += 1
            await self._world.add_node(f"extra-{self._extra}")

    async def _node_is_removed(self):
        if names := sorted(self._world.admin.nodes()):
            await self._world.drop_node(self._rng.choice(names))

    async def _node_is_made_anew(self):
        if names := sorted(self._world.admin.nodes()):
            name = self._rng.choice(names)
            await self._world.admin.drop_node(name)
            await asyncio.sleep(self._rng.choice((0.0, 0.5, 20.0)))
            if name not in self._world.admin.nodes():
                await self._world.admin.add_node(name, self._world.clock)

    async def _kubelets_beat(self):
        for name in sorted(self._world.admin.nodes()):
            await self._world.admin.beat(name, self._world.clock)

    # Changes by users and other controllers.

    async def _policy_is_edited(self):
        await self._world.admin.put_policy(self._rng.choice(NAMES), policies.random_spec(self._rng))

    async def _policies_are_edited_each_second(self):
        self._burst_until = self._world.clock.now + self._rng.uniform(5, 40)

    async def _policy_is_removed(self):
        if names := sorted(self._world.admin.policies()):
            await self._world.admin.drop_policy(self._rng.choice(names))

    async def _policy_of_a_new_name(self):
        self._extra += 1
        await self._world.admin.put_policy(
            f"passing-{self._extra}", policies.random_spec(self._rng)
        )

    async def _label_is_taken(self):
        names = sorted(self._world.admin.nodes())
        if not names:
            return
        node, rng = self._rng.choice(names), self._rng
        key = rng.choice(
            (
                rng.choice(NAMES),
                f"telemetry.aware.scheduling.{rng.choice(NAMES)}/{rng.choice('xyz')}",
                "zone",
            )
        )
        await self._world.admin.take_label(node, key, rng.choice(("violating", "theirs", "low")))

    async def _label_is_given_up(self):
        if taken := sorted(self._world.admin.theirs):
            await self._world.admin.take_label(*self._rng.choice(taken), None)

    async def _pod_runs(self):
        if names := sorted(self._world.admin.nodes()):
            self._extra += 1
            await self._world.admin.add_pod(
                f"pod-{self._extra}", self._rng.choice(NAMES), node=self._rng.choice(names)
            )

    async def _pod_waits(self):
        self._extra += 1
        policy = self._rng.choice(NAMES)
        because = f"0/8 nodes are available: 8 {policy} violated: heat GreaterThan 3."
        await self._world.admin.add_pod(f"pod-{self._extra}", policy, because=because)

    async def _gang_gets_a_pod(self):
        await self._world.gangs.come()

    async def _gang_comes_whole(self):
        await self._world.gangs.come_whole()

    async def _gang_loses_a_pod(self):
        await self._world.gangs.go()

    async def _gang_goes(self):
        await self._world.gangs.go(whole=True)

    async def _gate_of_others_goes(self):
        await self._world.gangs.take_theirs_off()

    # Faults of the API server and its connections.

    async def _weather(self):
        rng, server = self._rng, self._world.server
        act = rng.choice(
            (
                None,
                cluster.says(500),
                cluster.says(503),
                cluster.says(401),
                cluster.says(429, **{"Retry-After": str(rng.randint(1, 10))}),
                cluster.hangs,
                cluster.resets,
                cluster.loses_answers,
                cluster.slow(rng.uniform(0.1, 5)),
            )
        )
        hosts = rng.choice((("east",), ("west",), ("east", "west")))
        for host in hosts:
            server.weather[host] = act
            if rng.random() < 0.7:
                server.cut(host)

        async def clear_up(seconds):
            await asyncio.sleep(seconds)
            for host in hosts:
                if server.weather.get(host, cluster.fine) is act:
                    del server.weather[host]

        self._later(clear_up(rng.choice((1, 5, 20, 60)) * rng.random()))

    async def _watches_are_cut(self):
        self._world.server.cut(self._rng.choice(("east", "west")))

    async def _watches_fall_silent(self):
        self._world.server.silence(self._rng.choice(("east", "west")))

    async def _history_expires(self):
        self._world.server.expire()

    # Faults of the replicas and their machines.

    async def _replica_is_killed(self):
        await self._down(stop=False)

    async def _replica_is_stopped(self):
        await self._down(stop=True)

    async def _down(self, *, stop):
        up = [replica for replica in self._world.replicas if replica.up]
        if not up:
            return
        replica = self._rng.choice(up)
        await (replica.stop() if stop else replica.kill())

        async def start(seconds):
            await asyncio.sleep(seconds)
            if replica.gone:
                await self._world.start(replica)

        self._later(start(self._rng.choice((0.0, 1.0, 10.0, 40.0))))

    async def _lease_is_lost(self):
        """The object was deleted."""
        await self._world.admin.clear_leases()

    async def _wall_clock_jumps(self):
        self._world.clock.wall_ahead += self._rng.uniform(-7200, 7200)

    async def _machine_stalls(self):
        self._world.clock.now += self._rng.choice((0.3, 3.0, 15.0, 90.0))

    async def _disk_for_logs_is_full(self):
        self._world.disk_is_full(full=True)

        async def empty(seconds):
            await asyncio.sleep(seconds)
            self._world.disk_is_full(full=False)

        self._later(empty(self._rng.uniform(1, 60)))

    def _later(self, coroutine):
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_EVENTS = {
    "readings_change": 30,
    "agent_falls_silent": 3,
    "agent_goes_away": 3,
    "agent_is_late": 2,
    "second_stream": 1,
    "node_is_added": 2,
    "node_is_removed": 1,
    "node_is_made_anew": 2,
    "kubelets_beat": 4,
    "policy_is_edited": 5,
    "policies_are_edited_each_second": 1,
    "policy_is_removed": 1,
    "policy_of_a_new_name": 1,
    "label_is_taken": 3,
    "label_is_given_up": 3,
    "pod_runs": 2,
    "pod_waits": 2,
    "gang_gets_a_pod": 8,
    "gang_comes_whole": 2,
    "gang_loses_a_pod": 2,
    "gang_goes": 1,
    "gate_of_others_goes": 1,
    "weather": 3,
    "watches_are_cut": 1,
    "watches_fall_silent": 1,
    "history_expires": 1,
    "replica_is_killed": 1,
    "replica_is_stopped": 1,
    "lease_is_lost": 1,
    "wall_clock_jumps": 2,
    "machine_stalls": 1,
    "disk_for_logs_is_full": 1,
}
