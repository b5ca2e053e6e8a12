"""Cost of a scrape: the agent beside Debian's prometheus-node-exporter, on this machine, alternating.

Three programs listen on loopback: the agent with its default collectors, node_exporter with its own, and the agent with
those that both have. Each is scraped like by Prometheus: one connection, OpenMetrics preferred, gzip. Prints one JSON line;
CPU is user and system time of the whole process, per scrape. Without node_exporter, only the agent is measured, and the
line has a note.

    python -P bench/scrape.py [--scrapes 500] [--node-exporter PATH]
"""

import argparse
import gzip
import http.client
import json
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import psutil

HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    "Accept-Encoding": "gzip",
}
AGENT = (sys.executable, "-P", "-m", "agent")
PEERS = ("prometheus-node-exporter", "node_exporter")
LOOPBACK = "--web.listen-address=127.0.0.1:0"
WARM_UP = 30
AIM = "defaults.ratio.cpu_ms <= 0.6"  # memory: bench/agent_idle.py
AIM_ALONE = "agent.rss_mib <= 45"


@dataclass
class Program:
    """A running exporter, and its measurements."""

    process: subprocess.Popen[bytes]
    connection: http.client.HTTPConnection
    times: list[float] = field(default_factory=list)
    wire_bytes: int = 0
    text: str = ""
    cpu_before: float = 0.0
    cpu: float = 0.0

    def scrape(self) -> None:
        """Scrape once and record the time."""
        begin = time.perf_counter()
        self.connection.request("GET", "/metrics", headers=HEADERS)
        response = self.connection.getresponse()
        body = response.read()
        self.times.append(time.perf_counter() - begin)
        if response.status != 200:
            raise SystemExit(f"{self.process.args}: status {response.status}")
        self.wire_bytes = len(body)
        plain = gzip.decompress(body) if response.getheader("Content-Encoding") == "gzip" else body
        self.text = plain.decode()

    def cpu_seconds(self) -> float:
        """Return user and system time of all threads."""
        used = psutil.Process(self.process.pid).cpu_times()
        return used.user + used.system

    def rss_mib(self) -> float:
        """Return the current resident memory."""
        return psutil.Process(self.process.pid).memory_info().rss / (1 << 20)

    def collectors(self) -> set[str]:
        """Return the collectors that ran."""
        return set(re.findall(r'node_scrape_collector_success\{collector="(\w+)"\}', self.text))

    def report(self) -> dict[str, float]:
        """Return the figures."""
        times = sorted(self.times)
        return {
            "collectors": len(self.collectors()),
            "samples": sum(1 for line in self.text.splitlines() if not line.startswith("#")),
            "bytes": len(self.text.encode()),
            "wire_bytes": self.wire_bytes,
            "cpu_ms": round(self.cpu / len(times) * 1000, 3),
            "p50_ms": round(statistics.median(times) * 1000, 2),
            "p99_ms": round(times[int(0.99 * (len(times) - 1))] * 1000, 2),
            "rss_mib": round(self.rss_mib(), 1),
        }


@contextmanager
def running(command: Sequence[str]) -> Iterator[Program]:
    """Run a program on a free loopback port until the block ends."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said: deque[str] = deque(maxlen=3)
    try:
        for line in process.stderr:
            said.append(line.decode())
            if match := re.search(r"istening.*address=\S*:(\d+)", said[-1]):
                break
        else:
            raise SystemExit(f"{command[0]} did not start: {''.join(said)}")
        # node_exporter logs each scrape and would block on a full pipe.
        threading.Thread(target=deque, args=(process.stderr, 0), daemon=True).start()
        yield Program(process, http.client.HTTPConnection("127.0.0.1", int(match[1])))
    finally:
        process.terminate()
        process.wait()


def only(collectors: Iterable[str]) -> list[str]:
    """Return flags that enable only these collectors."""
    return ["--collector.disable-defaults", *(f"--collector.{name}" for name in sorted(collectors))]


def measure(programs: Sequence[Program], scrapes: int) -> None:
    """Scrape all programs, alternating."""
    for program in programs:
        for _ in range(WARM_UP):
            program.scrape()
        program.times.clear()
        program.cpu_before = program.cpu_seconds()
    for _ in range(scrapes):
        for program in programs:
            program.scrape()
    for program in programs:
        program.cpu = program.cpu_seconds() - program.cpu_before


def compare(ours: dict[str, float], peer: dict[str, float]) -> dict[str, float]:
    """Return our figures divided by the peer's."""
    return {name: round(ours[name] / peer[name], 2) for name in ours if name != "collectors"}


def run(scrapes: int, peer: str | None) -> dict[str, object]:
    """Measure and return the line."""
    with ExitStack() as stack:
        agent = stack.enter_context(running([*AGENT, LOOPBACK]))
        if peer is None:
            measure([agent], scrapes)
            missing = "no node_exporter here; give one with --node-exporter"
            return {"agent": agent.report(), "node_exporter": missing}
        other = stack.enter_context(running([peer, LOOPBACK]))
        for program in (agent, other):
            program.scrape()
        shared = agent.collectors() & other.collectors()
        same = stack.enter_context(running([*AGENT, LOOPBACK, *only(shared)]))
        twin = stack.enter_context(running([peer, LOOPBACK, *only(shared)]))
        measure([agent, other, same, twin], scrapes)
        reports = [program.report() for program in (agent, other, same, twin)]
    return {
        "defaults": {
            "agent": reports[0],
            "node_exporter": reports[1],
            "ratio": compare(reports[0], reports[1]),
        },
        "same_collectors": {
            "agent": reports[2],
            "node_exporter": reports[3],
            "ratio": compare(reports[2], reports[3]),
        },
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--scrapes", type=int, default=500, help="of each program (default 500)")
    parser.add_argument("--node-exporter", metavar="PATH", help="default: one found on the PATH")
    arguments = parser.parse_args()
    if arguments.node_exporter and not shutil.which(arguments.node_exporter):
        parser.error(f"no program {arguments.node_exporter}")
    peer = arguments.node_exporter or next(filter(None, map(shutil.which, PEERS)), None)
    found = run(arguments.scrapes, peer)
    aim = AIM if "defaults" in found else AIM_ALONE
    print(json.dumps({"benchmark": "scrape", "scrapes": arguments.scrapes, **found, "aim": aim}))


if __name__ == "__main__":
    main()
