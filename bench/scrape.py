"""Cost of a scrape: the agent beside Debian's prometheus-node-exporter, on this machine, alternating.

Three programs listen on loopback: the agent with its default collectors, node_exporter with its own, and the agent with
those that both have. Each is scraped like by Prometheus: one connection, OpenMetrics preferred, gzip. Prints one JSON line;
CPU is user and system time of the whole process, per scrape. Without node_exporter, only the agent is measured, and the
line has a note.

    python -P bench/scrape.py [--scrapes 500] [--node-exporter PATH]
"""

import re
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import commandline, exporters
from bench.commandline import Line
from bench.exporters import AGENT, Exporter, running
from bench.measure import percentile

WARM_UP = 30
AIM = "defaults.ratio.cpu_ms <= 0.6"  # memory: bench/agent_idle.py
AIM_ALONE = "agent.rss_mib <= 45"


def collectors(exporter: Exporter) -> set[str]:
    """Return the collectors that ran in the last scrape."""
    return set(re.findall(r'node_scrape_collector_success\{collector="(\w+)"\}', exporter.text))


def figures(exporter: Exporter, cpu: float) -> dict[str, float]:
    """Return the figures of an exporter that used this many CPU seconds."""
    times = [1000 * seconds for seconds in exporter.times]
    return {
        "collectors": len(collectors(exporter)),
        "samples": sum(1 for line in exporter.text.splitlines() if not line.startswith("#")),
        "bytes": len(exporter.text.encode()),
        "wire_bytes": exporter.wire_bytes,
        "cpu_ms": round(cpu / len(times) * 1000, 3),
        "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(percentile(times, 0.99), 2),
        "rss_mib": round(exporter.rss_mib(), 1),
    }


def only(names: Iterable[str]) -> list[str]:
    """Return flags that enable only these collectors."""
    return ["--collector.disable-defaults", *(f"--collector.{name}" for name in sorted(names))]


def measure(programs: Sequence[Exporter], scrapes: int) -> list[dict[str, float]]:
    """Scrape all programs, alternating, and return their figures."""
    for program in programs:
        for _ in range(WARM_UP):
            program.scrape()
        program.begin()
    for _ in range(scrapes):
        for program in programs:
            program.scrape()
    return [figures(program, program.used()) for program in programs]


def compare(agent: dict[str, float], peer: dict[str, float]) -> Line:
    """Return the figures of both, and the agent's divided by the peer's."""
    ratio = {name: round(agent[name] / peer[name], 2) for name in agent if name != "collectors"}
    return {"agent": agent, "node_exporter": peer, "ratio": ratio}


def measured(scrapes: int = 500, node_exporter: str | None = None) -> Iterator[Line]:
    """Yield the line. `node_exporter`: its path."""
    line = {"benchmark": "scrape", "scrapes": scrapes}
    peer = exporters.node_exporter(node_exporter)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:

        def start(name: str, *argv: str) -> Exporter:
            return stack.enter_context(running(Path(folder), name, argv))

        agent = start("agent", *AGENT)
        if peer is None:
            [report] = measure([agent], scrapes)
            missing = "no node_exporter here; give one with --node-exporter"
            yield {**line, "agent": report, "node_exporter": missing, "aim": AIM_ALONE}
            return
        other = start("node_exporter", peer)
        for program in (agent, other):
            program.scrape()
        shared = only(collectors(agent) & collectors(other))
        same, twin = start("same", *AGENT, *shared), start("twin", peer, *shared)
        reports = measure([agent, other, same, twin], scrapes)
    defaults, alike = compare(*reports[:2]), compare(*reports[2:])
    yield {**line, "defaults": defaults, "same_collectors": alike, "aim": AIM}


if __name__ == "__main__":
    commandline.run(measured)
