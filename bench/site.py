"""Runs the real evaluator with a cluster: mutual TLS on loopback ports, default settings except the given flags."""

import asyncio
import contextlib
import http.client
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench import cluster, measure, processes, world
from bench.authority import Authority
from bench.fleet import Fleet
from sandbox.endpoints import kubeconfig
from sandbox.processes import HeldPort

_ASKED_ONCE = (
    "--metricsSource=prometheus",
    "--syncPeriod=10m",
    "--staleAfter=30m",
    "--sourceTimeout=2m",  # a failed poll is repeated only after ten minutes
)
_REPORTS_EVERY = 10.0  # seconds
_PATIENCE = 300.0
_QUIET = 4  # consecutive checks without new writes


def get(
    port: int, path: str, *, timeout: float = 10.0, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Return status and body of a response on a new connection; status 0 if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def sample(metrics: str, series: str) -> float:
    """Return the value of a series, a name with labels, on a page of metrics; 0 if absent."""
    found = re.search(rf"^{re.escape(series)} (\S+)$", metrics, re.MULTILINE)
    return float(found[1]) if found else 0.0


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A running evaluator."""

    pid: int
    port: int
    agent_port: int
    ops_port: int
    log: Path

    def get(self, path: str) -> tuple[int, str]:
        """Return a response of the ops port; status 0 if there is none."""
        status, body = get(self.ops_port, path)
        return status, body.decode()

    def until(self, path: str) -> None:
        """Wait until this path returns 200. Raises TimeoutError with the end of the log."""
        until = time.monotonic() + _PATIENCE
        while (answer := self.get(path))[0] != 200:
            if time.monotonic() > until:
                raise TimeoutError(f"{path} answers {answer}; its log ends: {self.last_words()}")
            time.sleep(0.05)

    def metric(self, series: str) -> float:
        """Return the value of a series of its /metrics; 0 if absent."""
        return sample(self.get("/metrics")[1], series)

    def last_words(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-2000:]

    def forget_log(self) -> None:
        """Truncate its log, which grows with each request."""
        with self.log.open("r+b") as log:
            log.truncate(0)


@contextlib.contextmanager
def running(
    folder: Path, authority: Authority, api: str, flags: Sequence[str]
) -> Iterator[Evaluator]:
    """Start it on an API server, by its installed name; it is not ready yet."""
    config, log = folder / "kubeconfig", folder / "evaluator.log"
    config.write_text(kubeconfig(api))
    with HeldPort() as extender, HeldPort() as agents, HeldPort() as ops:
        argv = [
            str(Path(sys.executable).with_name("plimsoll-evaluator")),
            f"--kubeConfig={config}",
            f"--cert={authority.path('server.crt')}",
            f"--key={authority.path('server.key')}",
            f"--cacert={authority.ca}",
            "--bindAddress=127.0.0.1",
            "--shutdownDelay=0s",
            f"--port={extender.number}",
            f"--agentPort={agents.number}",
            f"--opsPort={ops.number}",
            "--leaderElect=false",  # a single replica, which writes at once
            "--kubeQPS=1000",  # initial labels are not measured
            *flags,
        ]
        with processes.program(argv, log) as process:
            ports = (extender.number, agents.number, ops.number)
            found = Evaluator(process.pid, *ports, log)
            found.until("/healthz")
            yield found
            if process.poll() is not None:
                raise ChildProcessError(f"the evaluator died: {found.last_words()}")


@dataclass(frozen=True, slots=True)
class Site:
    """A running evaluator and its surroundings. `world` takes edits."""

    names: Sequence[str]
    evaluator: Evaluator
    world: "Connection[Any, Any]"
    authority: Authority
    api: str
    """URL of the API server."""


@contextlib.contextmanager
def steady(nodes: int, policies: int) -> Iterator[Site]:
    """With constant readings: those of `cluster.readings`, queried from Prometheus once."""
    with (
        _prepared(nodes, policies) as around,
        around.evaluator(around.asked_once) as found,
    ):
        found.until("/readyz")
        measure.settle(found.pid)
        yield around.site(found)


@contextlib.contextmanager
def starting(nodes: int, policies: int) -> Iterator[tuple[float, Evaluator]]:
    """As `steady`, with an evaluator that has just been started, and when (`time.monotonic()`)."""
    with _prepared(nodes, policies) as around:
        begun = time.monotonic()
        with around.evaluator(around.asked_once) as found:
            yield begun, found


@contextlib.contextmanager
def streaming(nodes: int, policies: int, flags: Sequence[str] = ()) -> Iterator[tuple[Site, Fleet]]:
    """With an agent on each node, each on its own mutual TLS connection, with one unchanged report in 10 s.

    `flags`: more flags of the evaluator.
    """
    with _prepared(nodes, policies) as around:
        period = f"{_REPORTS_EVERY:g}s"
        with around.evaluator((f"--syncPeriod={period}", "--staleAfter=1m", *flags)) as found:
            address = f"127.0.0.1:{found.agent_port}"
            with Fleet(address, around.names, around.authority, interval=_REPORTS_EVERY) as fleet:
                asyncio.run(fleet.until_connected(_PATIENCE))
                found.until("/readyz")
                _until_written(found)
                yield around.site(found), fleet


def _until_written(found: Evaluator) -> None:
    """Wait until no more labels are written; with reporting agents, CPU use does not settle."""
    before, quiet, until = -1.0, 0, time.monotonic() + _PATIENCE
    while quiet < _QUIET:
        if time.monotonic() > until:
            raise TimeoutError("labels are still being written")
        time.sleep(0.25)
        now = found.metric('plimsoll_label_writes_total{result="ok"}')
        before, quiet = now, quiet + 1 if now == before else 0


@dataclass(frozen=True, slots=True)
class _Around:
    """The surroundings of an evaluator."""

    folder: Path
    names: Sequence[str]
    authority: Authority
    connection: "Connection[Any, Any]"
    api: str
    prometheus: str

    @property
    def asked_once(self) -> Sequence[str]:
        """Return the flags of an evaluator that queries Prometheus once."""
        return (*_ASKED_ONCE, f"--prometheusUrl={self.prometheus}")

    def site(self, evaluator: Evaluator) -> Site:
        """Return the site of a running evaluator."""
        return Site(self.names, evaluator, self.connection, self.authority, self.api)

    def evaluator(self, flags: Sequence[str]) -> contextlib.AbstractContextManager[Evaluator]:
        """Start the evaluator."""
        return running(self.folder, self.authority, self.api, flags)


@contextlib.contextmanager
def _prepared(nodes: int, policies: int) -> Iterator[_Around]:
    spec = world.Spec(nodes, policies)
    with (
        tempfile.TemporaryDirectory() as name,
        processes.beside(world.run, spec) as connection,
    ):
        folder = Path(name)
        authority = Authority.make(folder / "pki")
        api, prometheus = connection.recv()
        yield _Around(folder, cluster.names(nodes), authority, connection, api, prometheus)
