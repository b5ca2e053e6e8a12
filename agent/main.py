"""The node agent: serves the metrics of its collectors, and streams those that policies use to the evaluator."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from agent import config
from agent.config import Settings
from agent.rule_results import RuleResults
from agent.scrape.endpoints import OPEN_PATHS, Endpoints
from agent.scrape.runner import CollectorRunner
from agent.scrape.self_metrics import SelfMetrics
from agent.stream.fanout import StreamFanout
from collectors import registry
from plimsoll import VERSION, logs
from plimsoll.http import addresses
from plimsoll.http.addresses import Address, ListenError
from plimsoll.http.limits import Limits
from plimsoll.http.server import Server
from plimsoll.process import memory
from plimsoll.text import SentenceError

log = logs.get(__name__)

_GARBAGE = 10_000
"""Objects between two garbage collections: a scrape's objects are freed by reference counting and are fewer."""
_STARTED = 15.0
"""Seconds after which nothing is left to do but the same again and again."""

# A scrape has no body; requests that announce one are rejected. A slow client holds one page of 1 to 2 MB.
_LIMITS = Limits(body_bytes=0, bodies_bytes=0, connections=128, sending=16)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent until SIGTERM or SIGINT, or run the command in the first argument. Returns the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if [*arguments[:1]] == ["eval"]:
        from agent.eval import command

        return command.main(arguments[1:])
    if [*arguments[:1]] == ["check-rules"]:
        from agent.eval import check_rules  # as above

        return check_rules.main(arguments[1:])
    if [*arguments[:1]] == ["backfill"]:
        from agent.record import backfill  # as above

        return backfill.main(arguments[1:])
    if [*arguments[:1]] == ["record"]:
        from agent.record import command as recorder  # as above

        return recorder.main(arguments[1:])
    if [*arguments[:1]] == ["check-problems"]:
        from agent import check_problems  # as above

        return check_problems.main(arguments[1:])
    if [*arguments[:1]] == ["kernel-log"]:
        from agent import kernel_log  # as above

        return kernel_log.main(arguments[1:], os.environ)
    settings = config.parse(arguments, os.environ, hostname=socket.gethostname())
    logs.setup(settings.log_level, settings.log_format)
    logs.adopt()
    memory.use_one_arena()
    if settings.without_effect:
        log.warning(
            "ignoring flags of node_exporter that have no effect; see docs/collectors.md",
            flags=" ".join(settings.without_effect),
        )
    try:
        asyncio.run(run(settings))
    except (ListenError, SentenceError) as error:
        log.error("cannot start", reason=str(error))
        return 1
    return 0


async def run(settings: Settings) -> None:
    """Run the agent until a signal ends it."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    collector_runner = CollectorRunner(
        registry.build(settings.host, settings.collectors),
        timeout=settings.collector_timeout,
        poll_interval=settings.poll_interval,
    )
    own = SelfMetrics(
        disabled=settings.disable_exporter_metrics, compatible=settings.node_exporter_compat
    )
    recorder = _recorder(settings, collector_runner)
    endpoints = Endpoints(
        collector_runner,
        own,
        node=settings.host.name,
        telemetry_path=settings.telemetry_path,
        max_requests=settings.max_requests,
        recorder=recorder,
    )
    log.info(
        "starting",
        version=VERSION,
        node=settings.host.name,
        collectors=",".join(collector_runner.names) or "none",
    )
    server = _server(settings, endpoints)
    try:
        for address in await server.listen(settings.listen_addresses):
            log.info("listening", address=str(address))
        async with asyncio.TaskGroup() as work:
            loaded = asyncio.Event()
            tasks = [work.create_task(_work(collector_runner, endpoints, recorder, loaded))]
            if settings.evaluator_address:
                tasks.append(
                    work.create_task(_stream(settings, collector_runner, recorder, own, loaded))
                )
            await stop.wait()
            log.info("stopping")
            for task in tasks:
                task.cancel()
    finally:
        await server.close()
        collector_runner.close()


def _server(settings: Settings, endpoints: Endpoints) -> Server:
    if not settings.web_config:
        return Server(endpoints.answer, limits=_LIMITS)
    from agent.web.guard import WebGuard  # imported here only, to save memory

    web_guard = WebGuard(Path(settings.web_config))
    guarded = web_guard.guard(endpoints.answer, open_paths=OPEN_PATHS)
    return Server(guarded, limits=_LIMITS, tls=web_guard.tls)


def _recorder(settings: Settings, collector_runner: CollectorRunner) -> RuleResults | None:
    """Load the rules. The parsers of YAML and PromQL are imported here only, so that an agent without rules saves their memory."""
    if not settings.rules.files:
        return None
    from agent.rules.engine import RuleEngine
    from agent.rules.state_file import StateSaver

    rules = settings.rules
    saver = None
    if rules.state_file:
        path = Path(rules.state_file)
        saver = StateSaver(path, settings.host.procfs, limit=rules.max_memory)
    return RuleEngine(collector_runner, rules, saver=saver)


async def _work(
    collector_runner: CollectorRunner,
    endpoints: Endpoints,
    recorder: RuleResults | None,
    loaded: asyncio.Event,
) -> None:
    """Run the collectors once, after which the agent is ready; then load the rules and evaluate them."""
    await asyncio.to_thread(collector_runner.run)
    endpoints.ready = True
    if recorder is not None:
        await recorder.load()
    loaded.set()
    async with asyncio.TaskGroup() as work:
        work.create_task(_return_memory())
        if recorder is not None:
            work.create_task(recorder.run())


async def _return_memory() -> NoReturn:
    """Return memory that only the start needs: at once, and when streams are open and rules were evaluated a few times.

    From then on, return what floods of requests left unused.
    """
    gc.set_threshold(_GARBAGE)
    memory.settle()
    await asyncio.sleep(_STARTED)
    memory.settle()
    memory.drop_code()
    await memory.return_unused()


async def _stream(
    settings: Settings,
    collector_runner: CollectorRunner,
    recorder: RuleResults | None,
    own: SelfMetrics,
    loaded: asyncio.Event,
) -> None:
    """Stream to the evaluator. gRPC is imported here only, so that an agent without a stream saves its memory."""
    from agent.stream.client import StreamClient, Target
    from agent.stream.credentials import Credentials  # gRPC: 12 MB

    own.watch_stream()
    await (
        loaded.wait()
    )  # before that, a recorded metric would be reported as absent instead of unread
    evaluator = addresses.parse(settings.evaluator_address)
    credentials = Credentials(
        settings.evaluator_ca,
        settings.evaluator_cert,
        settings.evaluator_key,
        settings.evaluator_token,
        settings.evaluator_server_name or evaluator.host,
    )

    def open_stream(address: Address, on_state: Callable[[bool], None]) -> StreamClient:
        target = Target(
            str(address),
            settings.host.name,
            credentials if settings.evaluator_ca else None,
        )
        return StreamClient(target, collector_runner, recorded=recorder, on_state=on_state)

    await StreamFanout(evaluator, open_stream, on_state=own.stream_up.set).run()


if __name__ == "__main__":
    sys.exit(main())
