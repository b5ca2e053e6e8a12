"""One replica of the evaluator, wired as in the service, without ports: the only file that knows its internals."""

import asyncio
import gc
import json

from evaluator.app import Service
from evaluator.config import Settings
from evaluator.core import protocol
from evaluator.core.kube.client import Kube
from evaluator.core.policy.decide import NotReadyError
from evaluator.features.extender.verbs import answer_filter
from evaluator.features.gangs.controller import GangController

STALE_AFTER = 12.0
CLUSTER_STALE_AFTER = 20.0


class Replica:
    """A process that is started, killed and restarted under one name. `up`: its ports answer; `gone`: it has ended."""

    def __init__(self, name, folder):
        self.name = name
        self.up = False
        self.gone = True
        self.broken = []
        """The error that ended a loop; there must be none."""
        self.intake = None
        """Handles a new stream; replaced at each start."""
        self._folder = folder
        self._service = None
        self._kube = None
        self._loops = []

    async def start(self):
        self.gone = False
        config = self._folder / f"{self.name}.yaml"
        config.write_text(_KUBECONFIG % self.name)
        self._kube = await Kube.connect(str(config))
        settings = Settings(
            unsafe=True,
            sync_period=2.0,
            stale_after=STALE_AFTER,
            cluster_stale_after=CLUSTER_STALE_AFTER,
            lease_namespace="default",
            evict=True,
            gangs=True,
            gang_timeout=5.0,
            gang_backoff=1.0,
            gang_backoff_max=4.0,
            gang_ageing=20.0,
        )
        self._service = Service(settings, self._kube)
        agents = self._service.agents
        self._loops = [*self._service.start_loops(), asyncio.create_task(agents._announce())]
        self.intake = agents._serve
        self.up = True

    async def kill(self):
        """Kill it as by SIGKILL."""
        self.up = False
        self._note_broken()
        for loop in self._loops:
            loop.cancel()
        _, going_on = await asyncio.wait(self._loops, timeout=1.0)
        for loop in going_on:
            self.broken.append(f"{loop.get_coro().__qualname__} was cancelled, and goes on")
            loop.cancel()
        await self._kube.close()
        gc.unfreeze()  # a killed process keeps nothing
        self._service = self._kube = self.intake = None
        self._loops = []
        self.gone = True

    async def stop(self):
        """Stop it as by SIGTERM."""
        self._service.core.loop.stop("this replica is stopping")
        await self._service.core.leader.release()
        await self.kill()

    def _note_broken(self):
        for loop in self._loops:
            if loop.done() and not loop.cancelled() and loop.exception() is not None:
                self.broken.append(f"{loop.get_coro().__qualname__}: {loop.exception()!r}")

    def check(self):
        self._note_broken()
        return self.broken

    @property
    def waiting_for(self):
        """The /readyz text."""
        return self._service.core.loop.waiting_for

    @property
    def leads(self):
        return self._service.core.fence.is_leader()

    @property
    def gangs_wait_for(self):
        """Why gangs are not decided."""
        loops = (loop.__self__ for loop in self._service._wired["gangs"].loops)
        (controller,) = (one for one in loops if isinstance(one, GangController))
        return list(controller.undecided())

    def refused(self, policy, nodes):
        """The nodes rejected for a pod of this policy; None for a 503."""
        pod = {"metadata": {"namespace": "default", "labels": {"telemetry-policy": policy}}}
        args = protocol.decode(json.dumps({"Pod": pod, "NodeNames": list(nodes)}).encode())
        try:
            return frozenset(answer_filter(args, self._service.core.loop.current()).failed)
        except NotReadyError:
            return None


_KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://%s"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
