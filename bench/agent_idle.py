"""Cost of an idle agent: CPU and memory of a node that is only scraped, with the shipped rules, and with a stream.

Three agents with default collectors run at the same time, each scraped like by Prometheus every 15 s: `scraped` alone,
`rules` with the shipped rules and a state file, `stream` also with a mutual TLS stream of five recorded metrics to a
stand-in for the evaluator. node_exporter runs beside them if it is installed. CPU is user and system time of the whole
process, memory is resident at the end.

CPU is compared with node_exporter's in the same run, or, without it, with a loop of the same kind of work (`loop_ms`):
reading and splitting procfs files. Prints one JSON line per agent.

    python -P bench/agent_idle.py [--seconds 600] [--warm-up 20] [--python PATH] [--node-exporter PATH]
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc

from bench import commandline, exporters
from bench.authority import Authority
from bench.commandline import Line
from bench.exporters import RULES, Exporter, running
from bench.processes import beside
from wire import telemetry_pb2, telemetry_pb2_grpc

METRICS = (
    "node_cpu_headroom_ratio",
    "node_memory_headroom_ratio",
    "node_network_headroom_ratio",
    "node_disk_headroom_ratio",
    "node_pressure_memory_waiting_60s_ratio",
)
"""One recorded metric of each of five groups."""

_NODE = "node-0"
_INTERVAL_MS = 5_000  # --syncPeriod's default
_SCRAPE_EVERY = 15.0
_LOOP_TURNS = 2_000

# node_exporter takes 0.1 % of a core; relative to it: 0.25 % with rules, 0.6 % with a stream.
AIMS = {
    "scraped": "rss_mib <= 30",
    "rules": "rss_mib <= 36, cpu_ratio <= 2.5",
    "stream": "rss_mib <= 48, cpu_ratio <= 6",
}
# The same with the loop, of which node_exporter's CPU per second is LOOP_SHARE.
LOOP_SHARE = 0.1


class StandIn(telemetry_pb2_grpc.TelemetryServicer):
    """Subscribes to the metrics and counts reports."""

    def __init__(self) -> None:
        self.reports = 0
        self.bytes = 0

    async def Stream(self, _requests: object, context: Any) -> None:  # noqa: N802
        """Serve one agent."""
        await context.read()
        subscription = telemetry_pb2.Subscription(
            generation=1, metrics=METRICS, interval_ms=_INTERVAL_MS
        )
        await context.write(subscription)
        while isinstance(report := await context.read(), telemetry_pb2.Report):
            self.reports += 1
            self.bytes += report.ByteSize()


def serve(pipe: "Connection[Any, Any]", authority: Authority) -> None:
    """Run the stand-in in this process: sends its port, then the counts on each request."""
    asyncio.run(_serve(pipe, authority))


async def _serve(pipe: "Connection[Any, Any]", authority: Authority) -> None:
    server = grpc.aio.server()
    stand_in = StandIn()
    telemetry_pb2_grpc.add_TelemetryServicer_to_server(stand_in, server)  # type: ignore[no-untyped-call]
    pair = (authority.read("server.key"), authority.read("server.crt"))
    credentials = grpc.ssl_server_credentials(
        [pair], root_certificates=authority.read("ca.crt"), require_client_auth=True
    )
    pipe.send(server.add_secure_port("127.0.0.1:0", credentials))
    await server.start()
    while await asyncio.to_thread(pipe.recv):
        pipe.send((stand_in.reports, stand_in.bytes))


def agents(folder: Path, authority: Authority, port: int) -> Mapping[str, Sequence[str]]:
    """Return the flags of each agent."""
    (folder / "node.crt").write_bytes(authority.node(_NODE))

    def rules(name: str) -> list[str]:
        return [f"--rules.file={RULES}", f"--rules.state-file={folder}/{name}.state"]

    stream = [
        f"--node.name={_NODE}",
        f"--evaluator.address=127.0.0.1:{port}",
        f"--evaluator.tls.ca-file={authority.ca}",
        f"--evaluator.tls.cert-file={folder}/node.crt",
        f"--evaluator.tls.key-file={authority.path('node.key')}",
    ]
    return {"scraped": [], "rules": rules("rules"), "stream": [*rules("stream"), *stream]}


def loop_seconds() -> float:
    """Return the CPU seconds of a fixed amount of work like an agent's: reading and splitting procfs files."""
    begin = time.process_time()
    for _ in range(_LOOP_TURNS):
        for path in ("/proc/stat", "/proc/meminfo"):
            with open(path, "rb") as file:  # noqa: PTH123 (as fast as collectors do it)
                [float(line.split()[1]) for line in file.read().splitlines() if line[:4] != b"intr"]
    return time.process_time() - begin


def wait(scraped: Sequence[Exporter], seconds: float) -> None:
    """Scrape each exporter every 15 s, spread over the interval."""
    begin = time.monotonic()
    pause = _SCRAPE_EVERY / len(scraped)
    turn = 0
    while (due := turn * pause) < seconds:
        time.sleep(max(0.0, begin + due - time.monotonic()))
        scraped[turn % len(scraped)].scrape(anew=True)
        turn += 1
    time.sleep(max(0.0, begin + seconds - time.monotonic()))


def measured(
    seconds: float = 30.0,
    warm_up: float = 15.0,
    python: str = sys.executable,
    node_exporter: str | None = None,
) -> Iterator[Line]:
    """Yield the line of each agent. `python`: the interpreter that runs the agents; `node_exporter`: its path."""
    peer = exporters.node_exporter(node_exporter)
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        folder = Path(home)
        authority = Authority.make(folder / "tls")
        pipe = stack.enter_context(beside(serve, authority))
        started = {
            name: stack.enter_context(running(folder, name, [python, "-P", "-m", "agent", *flags]))
            for name, flags in agents(folder, authority, pipe.recv()).items()
        }
        other = stack.enter_context(running(folder, "node_exporter", [peer])) if peer else None
        scraped = [*started.values(), *([other] if other else [])]
        wait(scraped, warm_up)
        reports, size = _counts(pipe)
        for exporter in scraped:
            exporter.begin()
        wait(scraped, seconds)
        used = {exporter.name: exporter.used() for exporter in scraped}
        if not (more := _counts(pipe))[0]:
            raise SystemExit(f"no report: {(folder / 'stream.log').read_text()[-500:]}")
        base = _base(other, used, seconds)
        for name, agent in started.items():
            line = {
                "benchmark": "agent_idle",
                "case": name,
                "seconds": seconds,
                "percent_of_a_core": round(100 * used[name] / seconds, 3),
                "rss_mib": round(agent.rss_mib(), 1),
                **base,
                "cpu_ratio": round(used[name] / seconds / base["base_cpu"], 2),
            }
            if name == "stream":
                line["reports"] = more[0] - reports
                line["report_bytes"] = more[1] - size
            yield {**line, "aim": AIMS[name]}


def _counts(pipe: "Connection[Any, Any]") -> tuple[int, int]:
    pipe.send(True)
    found: tuple[int, int] = pipe.recv()
    return found


def _base(other: Exporter | None, used: Mapping[str, float], seconds: float) -> dict[str, Any]:
    """Return what CPU is compared with, in cores."""
    loop = loop_seconds()
    figures = {"loop_ms": round(loop * 1000, 1)}
    if other is None:
        return {**figures, "base": "loop", "base_cpu": LOOP_SHARE * loop}
    figures["node_exporter_rss_mib"] = round(other.rss_mib(), 1)
    return {**figures, "base": "node_exporter", "base_cpu": used[other.name] / seconds}


if __name__ == "__main__":
    commandline.run(measured)
