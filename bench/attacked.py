"""The programs that bench/attack.py attacks, each with its client and its probes."""

import contextlib
import http.client
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import cluster, processes, site
from bench.scheduler import Connection, question
from sandbox.processes import HeldPort

_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """A running program: its process, its ports by name, a request of its client, and the port of its probes.

    `certificate`: a file with a client certificate and key that the agents' port admits, of another node.
    """

    pid: int
    ports: Mapping[str, int]
    ask: Callable[[], None]
    probed: str
    certificate: Path | None = None

    def probe(self, timeout: float) -> bool:
        """Return whether a probe on a new connection is answered within `timeout` seconds."""
        return _status(self.ports[self.probed], "/healthz", timeout) == 200


@contextlib.contextmanager
def evaluator(nodes: int, policies: int) -> Iterator[Target]:
    """Run an evaluator with an agent on each node; kube-scheduler's filter request names all nodes."""
    with HeldPort() as gangs, contextlib.ExitStack() as stack:
        flags = ("--gangs", f"--gangWebhookPort={gangs.number}")
        found, _ = stack.enter_context(site.streaming(nodes, policies, flags))
        ours = found.evaluator
        client = stack.enter_context(Connection(ours.port, found.authority.client_context()))
        body = question(cluster.names(nodes)).body

        def ask() -> None:
            if (status := client.post("filter", body).status) != 200:
                raise SystemExit(f"the evaluator answers {status}")

        certificate = ours.log.with_name("stranger.pem")
        certificate.write_bytes(found.authority.node("stranger") + found.authority.read("node.key"))
        ports = {
            "extender": ours.port,
            "agents": ours.agent_port,
            "ops": ours.ops_port,
            "gangs": gangs.number,
        }
        yield Target(ours.pid, ports, ask, "ops", certificate)


@contextlib.contextmanager
def agent() -> Iterator[Target]:
    """Run an agent without an evaluator; its client scrapes it."""
    with tempfile.TemporaryDirectory() as name, HeldPort() as port:
        argv = (sys.executable, "-P", "-m", "agent", f"--web.listen-address={port.address}")
        with processes.program([*argv, "--node.name=node-0"], Path(name) / "log") as process:
            until = time.monotonic() + _PATIENCE
            while _status(port.number, "/readyz", 1.0) != 200:
                if time.monotonic() > until:
                    raise TimeoutError("the agent does not get ready")
                time.sleep(0.05)

            def ask() -> None:
                _status(port.number, "/metrics", _PATIENCE)

            yield Target(process.pid, {"agent": port.number}, ask, "agent")


def _status(port: int, path: str, timeout: float) -> int:
    """Return the status of a response on a new connection; 0 if there is none in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        response.read()
        return response.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
