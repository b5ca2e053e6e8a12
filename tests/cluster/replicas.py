"""Several evaluators on one cluster, in one election."""

SHORT = ("--leaseDuration=2s", "--renewDeadline=1500ms", "--retryPeriod=300ms")
"""An election within seconds."""


class Replica:
    """One evaluator with a stream from every node."""

    def __init__(self, evaluator, fleet):
        self.evaluator = evaluator
        self.fleet = fleet

    async def leads(self):
        return await self.evaluator.metric("plimsoll_leader") == 1

    async def written(self):
        return await self.evaluator.metric('plimsoll_label_writes_total{result="ok"}')

    @property
    def pid(self):
        return self.evaluator._processes.pid("evaluator")


class Replicas:
    """Several evaluators in one election, in the namespace of the scenario."""

    def __init__(self, world, folder):
        self.world = world
        self.all = []
        self._folder = folder
        self._evaluator, self._fleet = type(world.evaluator), type(world.fleet)

    async def start(self, count, *flags):
        for number in range(count):
            made = self._evaluator(self.world.plane.kubeconfig, self._folder / f"r{number}")
            self.all.append(Replica(made, self._fleet(made.agents)))
        election = ("--leaderElect=true", f"--leaseNamespace={self.world.namespace}")
        for one in self.all:
            await one.evaluator.start(*election, *flags)

    def say(self, node, **values):
        for one in self.all:
            one.fleet.say(node, **values)

    async def ready(self):
        for one in self.all:
            await one.evaluator.ready()

    async def leader(self, among=None):
        """Wait for a leader and return it."""

        async def look():
            for one in among or self.all:
                if await one.leads():
                    return one
            return None

        return await self.world.eventually(look)

    async def close(self):
        for one in self.all:
            await one.fleet.close()
            await one.evaluator.close()
