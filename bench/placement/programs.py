"""The programs of a system in the real engine: what runs beside kube-scheduler, and how it gets readings."""

import asyncio
import contextlib
import http.client
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.authority import Authority
from bench.placement.systems import METRIC, PERCENT, SYSTEMS, Evaluated, Tas, policy_object
from bench.tas import proxied, started
from evaluator.core.model.names import EXTENDER_RESOURCE
from lab.closed_loop.systems import SYNC_PERIOD
from sandbox.client.objects import Object
from sandbox.envtest import ControlPlane
from sandbox.processes import HeldPort, Processes
from sandbox.programs import EvaluatorLaunch, evaluator_command
from tests.cluster.fleet import Fleet

Report = Callable[[Mapping[str, Sequence[float]]], None]
"""Takes the readings of all nodes, by metric, in the order of the nodes."""
Started = tuple[Sequence[Object], Report]
"""The extenders of kube-scheduler's configuration, and what gets the readings."""
PROGRAMS = frozenset({"safe-w2", "tas-w1", "tas-w10"})
"""Systems that have programs and no model of this name."""
_PATIENCE = 60.0


class _Place(NamedTuple):
    """Where programs run: their control plane, a folder for files, the nodes, and what ends the programs."""

    plane: ControlPlane
    folder: Path
    nodes: Sequence[str]
    stack: contextlib.AsyncExitStack


@dataclass(frozen=True)
class Programs:
    """What runs beside kube-scheduler: nothing, the evaluator, or Telemetry Aware Scheduling.

    `policy`: of all pods. `scorer`: in place of the policy's verbs. `tas`: the program.
    """

    weight: int = 1
    policy: Object | None = None
    scorer: str = ""
    tas: str = ""

    @contextlib.asynccontextmanager
    async def running(
        self, plane: ControlPlane, folder: Path, nodes: Sequence[str]
    ) -> AsyncIterator[Started]:
        """Run the programs until the block ends."""
        async with contextlib.AsyncExitStack() as stack:
            place = _Place(plane, folder, nodes, stack)
            if self.tas:
                yield await self._tas(place)
            elif self.policy is None and not self.scorer:
                yield (), _ignore
            else:
                yield await self._evaluator(place)

    async def _evaluator(self, place: _Place) -> Started:
        plane, folder, nodes, stack = place
        ports = [stack.enter_context(HeldPort()) for _ in range(3)]
        supervised = Processes(folder / "logs")
        stack.push_async_callback(supervised.close)
        launch = EvaluatorLaunch(
            kubeconfig=plane.kubeconfig,
            extender_port=ports[0].number,
            agent_port=ports[1].number,
            ops_port=ports[2].number,
            sync_period=SYNC_PERIOD,
            flags=(
                "--agentUnsafe",
                *([f"--scorers={self.scorer}"] if self.scorer else ()),
            ),
        )
        await supervised.start("evaluator", list(evaluator_command(launch)))
        fleet = Fleet(ports[1].address, period=SYNC_PERIOD)
        stack.push_async_callback(fleet.close)

        def report(readings: Mapping[str, Sequence[float]]) -> None:
            for number, name in enumerate(nodes):
                fleet.say(name, **{metric: values[number] for metric, values in readings.items()})

        path = f"scorers/{self.scorer}" if self.scorer else "scheduler"
        return [self._extender(f"http://{ports[0].address}/{path}", names_only=True)], report

    async def _tas(self, place: _Place) -> Started:
        plane, folder, nodes, stack = place
        percent: dict[str, float] = dict.fromkeys(nodes, 0.0)

        def report(readings: Mapping[str, Sequence[float]]) -> None:
            percent.update(zip(nodes, (100 * value for value in readings[METRIC]), strict=True))

        def now(metric: str) -> Mapping[str, float]:
            return percent if metric == PERCENT else {}

        tls = ssl.create_default_context(cafile=plane.ca)
        api = await stack.enter_async_context(proxied(plane.url, now, token=plane.token, tls=tls))
        authority = Authority.make(folder / "pki")
        authority.client_context()
        process, port = stack.enter_context(started(self.tas, folder, api, authority))
        until = time.monotonic() + _PATIENCE
        while not await asyncio.to_thread(_answers, port, authority):
            if time.monotonic() > until or process.poll() is not None:
                raise SystemExit(f"TAS: {(folder / 'tas.log').read_text()[-800:]}")
            await asyncio.sleep(0.5)
        await asyncio.sleep(2 * SYNC_PERIOD)  # it has read the policy and its metric
        secured = {
            "enableHTTPS": True,
            "tlsConfig": {
                "caFile": str(authority.ca),
                "certFile": authority.path("scheduler.crt"),
                "keyFile": authority.path("node.key"),
            },
        }
        return [
            {**self._extender(f"https://127.0.0.1:{port}/scheduler", names_only=False), **secured}
        ], report

    def _extender(self, url: str, *, names_only: bool) -> Object:
        found: dict[str, Any] = {
            "urlPrefix": url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": self.weight,
            "enableHTTPS": False,
            "nodeCacheCapable": names_only,
        }
        if not self.scorer:
            managed = {"name": EXTENDER_RESOURCE, "ignoredByScheduler": True}
            found["managedResources"] = [managed]
        return found


def programs(system: str, tas: str = "") -> Programs | None:
    """Return the programs of a system of the benchmark; None if it has only a model. `tas`: the program, if there is one."""
    if system == "default":
        return Programs()
    if system == "safe-w2":
        return Programs(weight=2, scorer="safe")
    if system in PROGRAMS:
        made = SYSTEMS[f"{system}-model"]
        assert isinstance(made, Tas)
        return Programs(made.weight, policy_object({}, percent=True), tas=tas) if tas else None
    found = SYSTEMS.get(system)
    if isinstance(found, Evaluated) and not found.evict:
        return Programs(found.weight, policy_object(found.annotations))
    return None


def _ignore(_readings: Mapping[str, Sequence[float]]) -> None:
    """Take no readings."""


def _answers(port: int, authority: Authority) -> bool:
    """Return whether a server with this CA listens."""
    context = authority.client_context()
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
        connection.request("GET", "/")
        connection.getresponse()
        return True
    return False
