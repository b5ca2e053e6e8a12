"""Builds the evaluator from its core and the list of features, starts and stops it."""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any

from evaluator.config import Settings
from evaluator.core.assembly import Core
from evaluator.core.http.ops import OpsServer
from evaluator.core.http.ports import Port, Ports, ops_port
from evaluator.core.kube.client import Kube
from evaluator.core.options import CoreOptions
from evaluator.core.signals import Decided, wakes
from evaluator.core.wiring import Loop, Wired
from evaluator.features.registry import FEATURES, VOCABULARY
from plimsoll import logs
from plimsoll.durations import format_duration
from plimsoll.process.garbage import FreezeWhenReady

log = logs.get(__name__)

_LAST_WRITES = 2.0
"""Seconds for the last writes of features at a stop."""


class Service:
    """One replica: ports that answer from the current decisions, the decision loop and the loops of features."""

    def __init__(self, settings: Settings, api: Kube) -> None:
        """Raises TlsError for unusable certificates, QueriesError, and what `wire` of a feature raises."""
        vocabulary = VOCABULARY
        for feature in FEATURES:
            vocabulary = settings.options_of(feature.options).words(vocabulary)
        self.core = core = Core(settings.options_of(CoreOptions), api, vocabulary)
        self._wired: dict[str, Wired] = {}
        for feature in FEATURES:
            self._wired[feature.name] = wired = feature.wire(
                core, settings.options_of(feature.options)
            )
            core.add(wired, feature.name)
        core.signals.connect(wakes(FreezeWhenReady(core.loop.is_ready).look, Decided))
        self.agents = core.agents()
        self._ports = Ports(
            core.options.bind_address,
            core.metrics,
            self._http_ports(),
            core.agent_port(self.agents),
        )
        core.loop.give_way(self._ports.busy)

    def _http_ports(self) -> list[Port]:
        core, wireds = self.core, self._wired.values()
        operations = OpsServer(
            core.loop,
            core.metrics,
            pages={path: r for wired in wireds for path, r in wired.ops_routes.items()},
            waiting_for=core.contributions.waiting_for,
        )
        groups = [group for wired in wireds for group in wired.scheduler_routes]
        self.operations = operations.answer
        """Answers requests to the operations port, of users who may see everything."""
        return [
            ops_port(
                core.options,
                core.api,
                core.metrics,
                self.operations,
                core.contributions.resource_path,
            ),
            core.scheduler_port.port(groups),
            *(port for wired in wireds for port in wired.ports),
        ]

    async def run(self, stop: asyncio.Event, at_once: asyncio.Event) -> None:
        """Serve until `stop` is set, and for --shutdownDelay afterwards or until `at_once` is set.

        Raises OSError or ListenError for a port that cannot be opened.
        """
        loops: list[asyncio.Task[None]] = []
        try:
            await self._ports.open()
            loops += self.start_loops()
            await _unless_failed(stop.wait(), loops)
            await _unless_failed(self._leave(at_once), loops)
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self._ports.close()

    async def _leave(self, at_once: asyncio.Event) -> None:
        """Stop being ready and leading, and answer until clients had the time to notice."""
        delay = self.core.options.shutdown_delay
        log.info("stopping", delay=format_duration(delay))
        self.core.loop.stop("this replica is stopping")
        self._ports.retire()
        until = asyncio.get_running_loop().time() + delay
        await self._write_last()
        await self.core.leader.release()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await at_once.wait()
        log.info("closing the ports")

    async def _write_last(self) -> None:
        """Let features write what they have kept back, while this replica still leads."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WRITES):
                for name, wired in self._wired.items():
                    if wired.leaves is not None:
                        with self.core.isolation.part("last writes").isolated(name):
                            await wired.leaves()

    def start_loops(self) -> list[asyncio.Task[Any]]:
        """Start the loops of the core and of features. Without leader election, this replica may write from now on."""
        run = self.core.isolation.keep_running
        return [asyncio.create_task(run(name, loop)) for name, loop in self.loops()]

    def loops(self) -> list[tuple[str, Loop]]:
        """Return the loops of the core and of features, each with its owner and name, as parts are called."""
        loops = [("core", loop) for loop in self.core.loops()]
        loops += [(name, loop) for name, wired in self._wired.items() for loop in wired.loops]
        return [(f"{name}: {_named(loop)}", loop) for name, loop in loops]


def _named(loop: Loop) -> str:
    """Return the class of a bound method, else the name of a function."""
    owner = getattr(loop, "__self__", None)
    return type(owner).__name__ if owner is not None else getattr(loop, "__name__", "loop")


async def _unless_failed(
    until: Coroutine[Any, Any, object], loops: Sequence[asyncio.Task[Any]]
) -> None:
    """Wait for a coroutine. Loops do not return: raises the error of one that fails meanwhile."""
    waiting = asyncio.create_task(until)
    try:
        done, _ = await asyncio.wait([waiting, *loops], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        waiting.cancel()
