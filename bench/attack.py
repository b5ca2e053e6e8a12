"""Attacks on a running evaluator and agent: what kube-scheduler, probes and memory have of each, one row of a table.

The evaluator serves 1,000 nodes with an agent each and 50 policies. kube-scheduler's filter request with names only is sent
back to back, quiet and beside each attack, while each of ten probes a second opens a connection. Attackers are niced, so
that the server causes what is measured. A row is within its bounds if p99 is at most 3 times the quiet one, no probe fails,
no answer differs from that of quiet times (`wrong`), all agents stay connected (`agents`: the least), and memory 5 s after the
attack is at most 1.2 times that before. The exit status is 1 if a row is not: look at it, and repeat it on an idle machine.

    python -P bench/attack.py [--nodes 1000] [--policies 50] [--seconds 4] [--only TEXT]
"""

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import cluster, commandline, measure, site
from bench.exporters import AGENT, running
from bench.scheduler import Connection, question
from sandbox.processes import HeldPort
from tests.security import floods

P99, MEMORY = 3.0, 1.2
"""Bounds, as multiples of the quiet values."""
_AFTERWARDS = 5.0
_PROBE_TIMEOUT = 2.0
"""Of readiness probes in deploy/, in seconds."""
_PROBE_EVERY = 0.1
_PATIENCE = 60.0
_STALE_AFTER = "--staleAfter=20s"
"""Two reports of an agent: a lost stream shows in answers within the time of an attack."""
_MARGIN_MS = 1.0
"""A p99 that rises by less is the machine's."""


@dataclass(frozen=True, slots=True)
class Target:
    """A running program: its process, its ports by name, a request of its client, and the port of its probes.

    `ask` returns whether the answer is right. `agents`: how many are connected. `certificate`: a file with a client
    certificate and key that the agents' port admits, of another node.
    """

    pid: int
    ports: Mapping[str, int]
    ask: Callable[[], bool]
    probed: str
    agents: Callable[[], int] = lambda: 0
    certificate: Path | None = None

    def probe(self, timeout: float) -> bool:
        """Return whether a probe on a new connection is answered within `timeout` seconds."""
        return _get(self.ports[self.probed], "/healthz", timeout) == 200


Run = Callable[[Target], contextlib.AbstractContextManager[object]]
"""Attacks a target while the block runs."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A row: its name, what it attacks (`evaluator` or `agent`), and the attack."""

    name: str
    run: Run
    target: str = "evaluator"


def flood(kind: str, port: str, connections: int, *, tls: str = "") -> Run:
    """Return the attack of a kind of tests/security/floods.py on a port of the target.

    `tls`: `tls`, or `h2` for HTTP/2 with the client certificate of another node; empty for plain text.
    """

    @contextlib.contextmanager
    def run(target: Target) -> Iterator[None]:
        secured = [f"h2={target.certificate}" if tls == "h2" else tls] if tls else []
        argv = [floods.__file__, kind, str(target.ports[port]), str(connections), *secured]
        process = subprocess.Popen(
            [sys.executable, "-P", *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            yield
            assert process.stdin is not None
            process.stdin.close()

    return run


# One line for each attack. Others than floods: any function of `Run`'s type.
ATTACKS = (
    Attack("8080: chunks of one byte", flood("chunks", "ops", 30)),
    Attack("8080: 3,000 header fields", flood("fields", "ops", 30)),
    Attack("8080: 101 header fields", flood("many_fields", "ops", 30)),
    Attack("8080: 404 on kept connections", flood("not_found", "ops", 30)),
    Attack("8080: new connections", flood("connections", "ops", 30)),
    Attack("9001: handshakes, no certificate", flood("connections", "extender", 8, tls="tls")),
    Attack("9001: chunks, no certificate", flood("chunks", "extender", 8, tls="tls")),
    Attack("9443: 101 chunk trailers", flood("trailers", "gangs", 8, tls="tls")),
    Attack("9443: reviews of 8 MiB", flood("large_reviews", "gangs", 8, tls="tls")),
    Attack("9443: reviews of 4 MiB", flood("reviews", "gangs", 8, tls="tls")),
    Attack("9091: silent connections", flood("silent", "agents", 300)),
    Attack("9091: refused streams", flood("streams", "agents", 8, tls="h2")),
    Attack("9091: endless CONTINUATION frames", flood("continuation", "agents", 8, tls="h2")),
    Attack("9091: endless fields of one byte", flood("indexed", "agents", 8, tls="h2")),
    Attack("9100: chunks of one byte", flood("chunks", "agent", 120), "agent"),
    Attack("9100: 101 header fields", flood("many_fields", "agent", 120), "agent"),
)


@dataclass(slots=True)
class Row:
    """What was measured of an attack: times in ms, memory in MB."""

    attack: str
    quiet: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    probes: int = 0
    failed: int = 0
    wrong: int = 0
    expected: int = 0
    connected: int = 0
    """Agents: before the attack, and the least number during it."""
    before: float = 0.0
    peak: float = 0.0
    after: float = 0.0

    @property
    def within(self) -> bool:
        """Whether the row is within its bounds."""
        quiet, beside = (measure.percentile(times, 0.99) for times in (self.quiet, self.beside))
        slower = beside > P99 * quiet and beside > quiet + _MARGIN_MS
        kept = self.connected == self.expected and self.after <= MEMORY * self.before
        return kept and not (slower or self.failed or self.wrong)

    def __str__(self) -> str:
        """Return the row of the table."""
        percentiles = [
            measure.percentile(times, share)
            for share in (0.5, 0.99)
            for times in (self.quiet, self.beside)
        ]
        times = "".join(f"{value:9.1f}" for value in percentiles)
        memory = f"{self.before:8.0f}{self.peak:8.0f}{self.after:8.0f}"
        harm = f"{self.failed:6}/{self.probes:<4}{self.wrong:6}{self.connected:8}"
        verdict = "" if self.within else "  <- beyond its bounds"
        return f"{self.attack:36}{times}{harm}{memory}{verdict}"


HEAD = (
    f"{'attack':36}{'p50 ms':>9}{'beside':>9}{'p99 ms':>9}{'beside':>9}{'probes lost':>12}"
    f"{'wrong':>5}{'agents':>8}{'MB':>8}{'peak':>8}{'5 s on':>8}"
)


def measured(attack: Attack, target: Target, seconds: float) -> Row:
    """Run one attack and return its row."""
    row = Row(attack.name)
    _times(target, min(1.0, seconds))  # warms up
    row.quiet = _times(target, seconds / 2)
    row.before = measure.memory_mb(target.pid)
    row.expected = row.connected = target.agents()
    measure.forget_peak(target.pid)
    with attack.run(target), _probing(target, row):
        row.beside = _times(target, seconds, row)
    row.peak = measure.memory_mb(target.pid, "VmHWM")
    time.sleep(_AFTERWARDS)
    row.after = measure.memory_mb(target.pid)
    row.quiet += _times(target, seconds / 2)  # other load changes within a row
    return row


def _times(target: Target, seconds: float, row: Row | None = None) -> list[float]:
    """Return the latencies of successive requests of the target's client, in ms; at least one. Count wrong answers in `row`."""
    found, until = [], time.monotonic() + seconds
    while not found or time.monotonic() < until:
        begun = time.perf_counter()
        right = target.ask()
        found.append((time.perf_counter() - begun) * 1e3)
        if row is not None:
            row.wrong += not right
            row.connected = min(row.connected, target.agents())
    return found


@contextlib.contextmanager
def _probing(target: Target, row: Row) -> Iterator[None]:
    """Send probes while the block runs, each on a new connection, as a kubelet does."""
    over = threading.Event()

    def probe() -> None:
        while not over.wait(_PROBE_EVERY):
            row.probes += 1
            row.failed += not target.probe(_PROBE_TIMEOUT)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def evaluator(nodes: int, policies: int) -> Iterator[Target]:
    """Run an evaluator with an agent on each node; kube-scheduler's filter request names all nodes."""
    with HeldPort() as gangs, contextlib.ExitStack() as stack:
        flags = ("--gangs", f"--gangWebhookPort={gangs.number}", _STALE_AFTER)
        found, fleet = stack.enter_context(site.streaming(nodes, policies, flags))
        ours = found.evaluator
        client = stack.enter_context(Connection(ours.port, found.authority.client_context()))
        body = question(cluster.names(nodes)).body
        quiet = client.post("filter", body)
        if quiet.status != 200:
            raise SystemExit(f"the evaluator answers {quiet.status}")

        def ask() -> bool:
            return client.post("filter", body).body == quiet.body

        certificate = ours.log.with_name("stranger.pem")
        certificate.write_bytes(found.authority.node("stranger") + found.authority.read("node.key"))
        ports = {
            "extender": ours.port,
            "agents": ours.agent_port,
            "ops": ours.ops_port,
            "gangs": gangs.number,
        }
        yield Target(ours.pid, ports, ask, "ops", lambda: fleet.connected, certificate)


@contextlib.contextmanager
def agent() -> Iterator[Target]:
    """Run an agent without an evaluator; its client scrapes it."""
    with (
        tempfile.TemporaryDirectory() as name,
        running(Path(name), "agent", [*AGENT, "--node.name=node-0"]) as found,
    ):
        port = found.connection.port

        def ask() -> bool:
            return _get(port, "/metrics", _PATIENCE) == 200

        yield Target(found.pid, {"agent": port}, ask, "agent")


def _get(port: int, path: str, timeout: float) -> int:
    """Return the status of a response on a new connection; 0 if there is none in time."""
    return site.get(port, path, timeout=timeout, headers={"Connection": "close"})[0]


def table(attacks: Sequence[Attack], *, nodes: int, policies: int, seconds: float) -> Iterator[Row]:
    """Yield the row of each attack."""
    for name, started in (("evaluator", evaluator(nodes, policies)), ("agent", agent())):
        if chosen := [attack for attack in attacks if attack.target == name]:
            with started as target:
                for attack in chosen:
                    yield measured(attack, target, seconds)


def main(nodes: int = 1000, policies: int = 50, seconds: float = 4.0, only: str = "") -> int:
    """Print a row for each attack whose name contains `only`. Returns 1 if one is beyond its bounds."""
    chosen = [attack for attack in ATTACKS if only in attack.name]
    print(HEAD, flush=True)
    within = True
    for row in table(chosen, nodes=nodes, policies=policies, seconds=seconds):
        print(row, flush=True)
        within &= row.within
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main(**commandline.given(main)))
