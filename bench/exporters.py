"""Runs agents and node_exporter on loopback ports, and measures what they cost."""

import contextlib
import gzip
import http.client
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import measure
from bench.processes import program

AGENT = (sys.executable, "-P", "-m", "agent")
RULES = str(Path(__file__).resolve().parent.parent / "deploy/rules/*.yaml")
"""The shipped recording rules."""
_HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    "Accept-Encoding": "gzip",
}
"""As Prometheus sends them."""
_PATIENCE = 30.0
_SAMPLE = re.compile(r"^(\w+)(?:\{.*\})? (\S+)", re.MULTILINE)


def node_exporter(path: str | None = None) -> str | None:
    """Return the node_exporter at a path, or the one on the PATH; None if there is none. Exits if the path is wrong."""
    if path is not None and shutil.which(path) is None:
        raise SystemExit(f"no program {path}")
    names = (path,) if path else ("prometheus-node-exporter", "node_exporter")
    return next(filter(None, map(shutil.which, names)), None)


@dataclass
class Exporter:
    """A running exporter, with the text of the last scrape."""

    name: str
    pid: int
    connection: http.client.HTTPConnection
    text: str = ""
    wire_bytes: int = 0
    times: list[float] = field(default_factory=list)
    """Seconds of each scrape."""
    _cpu: float = 0.0

    def scrape(self, *, anew: bool = False) -> None:
        """Scrape once, as Prometheus does. `anew`: on a new connection, since servers close those that rest."""
        if anew:
            self.connection.close()
        begin = time.perf_counter()
        self.connection.request("GET", "/metrics", headers=_HEADERS)
        response = self.connection.getresponse()
        body = response.read()
        self.times.append(time.perf_counter() - begin)
        if response.status != 200:
            raise SystemExit(f"{self.name}: status {response.status}")
        self.wire_bytes = len(body)
        plain = gzip.decompress(body) if response.getheader("Content-Encoding") == "gzip" else body
        self.text = plain.decode()

    def total(self, metric: str) -> float:
        """Return the sum of all samples of a metric in the last scrape."""
        return sum(float(value) for name, value in _SAMPLE.findall(self.text) if name == metric)

    def begin(self) -> None:
        """Begin the measurement."""
        self.times.clear()
        self._cpu = measure.cpu_seconds(self.pid)

    def used(self) -> float:
        """Return the CPU seconds since `begin`."""
        return measure.cpu_seconds(self.pid) - self._cpu

    def rss_mib(self) -> float:
        """Return the resident memory."""
        return measure.memory_mb(self.pid) * 1e6 / (1 << 20)


@contextlib.contextmanager
def running(folder: Path, name: str, argv: Sequence[str]) -> Iterator[Exporter]:
    """Run an exporter on a free loopback port until the block ends."""
    log = folder / f"{name}.log"
    with program([*argv, "--web.listen-address=127.0.0.1:0"], log) as process:
        until = time.monotonic() + _PATIENCE
        while not (listening := re.search(r"istening.*address=\S*:(\d+)", log.read_text())):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{name} did not start: {log.read_text()[-500:]}")
            time.sleep(0.05)
        port = int(listening[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
        with contextlib.closing(connection):
            yield Exporter(name, process.pid, connection)
