"""Runs the real evaluator: mutual TLS on loopback ports, default settings except the given flags."""

import contextlib
import http.client
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import processes
from bench.authority import Authority
from sandbox.endpoints import kubeconfig
from sandbox.processes import HeldPort

_PATIENCE = 120.0


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
        connection = http.client.HTTPConnection("127.0.0.1", self.ops_port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def until(self, path: str) -> None:
        """Wait until this path returns 200. Raises TimeoutError with the end of the log."""
        until = time.monotonic() + _PATIENCE
        while (answer := self.get(path))[0] != 200:
            if time.monotonic() > until:
                raise TimeoutError(f"{path} answers {answer}; its log ends: {self.last_words()}")
            time.sleep(0.05)

    def metric(self, sample: str) -> float:
        """Return a sample of its /metrics by name and labels; 0 if absent."""
        _, text = self.get("/metrics")
        found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

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
