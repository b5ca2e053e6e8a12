"""The real evaluator as a process, and a client of its ports."""

import contextlib
import json
import os
import signal

import aiohttp

from sandbox.processes import HeldPort
from sandbox.programs import EvaluatorLaunch, evaluator_command
from tests.eventually import eventually
from tests.features import present
from tests.preloaded import Processes
from tests.tuned_evaluator import retuned

EVICTIONS = ("--evict", "--evictPeriod=1s") if present("evictions") else ()


class Evaluator:
    """The real program, at addresses that stay the same through restarts."""

    def __init__(self, config, logs):
        self._config = config
        self._processes = Processes(logs)
        self._ports = {name: HeldPort() for name in ("extender", "agents", "ops")}
        self._session = aiohttp.ClientSession()
        self._address = f"http://{self._ports['extender'].address}"
        self.extender = f"{self._address}/scheduler"
        self.agents = self._ports["agents"].address
        self._scheme = "http"

    @property
    def operations(self):
        """The URL of the ops port."""
        return f"{self._scheme}://{self._ports['ops'].address}"

    def scorer(self, name):
        """The urlPrefix of a scorer's extender."""
        return f"{self._address}/scorers/{name}"

    async def start(self, *flags, **changes):
        """`changes` are constants to replace, as of `tuned`."""
        launch = EvaluatorLaunch(
            kubeconfig=self._config,
            extender_port=self._ports["extender"].number,
            agent_port=self._ports["agents"].number,
            ops_port=self._ports["ops"].number,
            sync_period=1.0,
            flags=("--staleAfter=5s", *EVICTIONS, *flags),
        )
        self._scheme = "https" if "--opsTls" in flags else "http"
        await self._processes.start("evaluator", retuned(evaluator_command(launch), **changes))

    async def stop(self, *, kill=False):
        await self._processes.stop("evaluator", kill=kill)

    @property
    def alive(self):
        """Whether the process runs."""
        return self._processes.pid("evaluator") is not None

    @contextlib.contextmanager
    def paused(self):
        """Stop the process with SIGSTOP until the block ends."""
        pid = self._processes.pid("evaluator")
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def close(self):
        await self._processes.close()
        await self._session.close()
        for port in self._ports.values():
            port.close()

    def log(self):
        """Its log so far, also for failure messages."""
        return self._processes.log_end("evaluator")

    async def get(self, path, token=""):
        """(status, text) of a path on the ops port."""
        self._processes.check("evaluator")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{self.operations}{path}"
        try:
            async with self._session.get(url, headers=headers, ssl=False) as response:
                return response.status, await response.text()
        except aiohttp.ClientError:
            return 0, ""

    async def ready(self):
        async def is_ready():
            return (await self.get("/readyz"))[0] == 200

        try:
            await eventually(is_ready)
        except TimeoutError:
            raise AssertionError(f"not ready{self.log()}") from None

    async def metric(self, line):
        """The value of a metric, written as `name{label="value"}`; None if there is no such line."""
        _, text = await self.get("/metrics")
        found = [one for one in text.splitlines() if one.startswith(f"{line} ")]
        return float(found[0].split()[-1]) if found else None

    async def filter(self, pod, nodes):
        """The extender's response for a pod and nodes."""
        body = {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}
        async with self._session.post(f"{self.extender}/filter", json=body) as response:
            return json.loads(await response.text())
