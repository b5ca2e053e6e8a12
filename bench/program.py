"""The real evaluator as a process: mutual TLS on loopback ports, default settings but for what the bench says."""

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
    """A running one."""

    pid: int
    port: int
    agent_port: int
    ops_port: int
    log: Path

    def get(self, path: str) -> tuple[int, str]:
        """An answer of the port for operators; status 0 while there is none."""
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
        """Wait until this path answers 200. Raises TimeoutError with the end of the log."""
        until = time.monotonic() + _PATIENCE
        while (answer := self.get(path))[0] != 200:
            if time.monotonic() > until:
                raise TimeoutError(f"{path} answers {answer}; its log ends: {self.last_words()}")
            time.sleep(0.05)

    def metric(self, sample: str) -> float:
        """A sample of its /metrics, named as it is written there; 0 for one that is not there yet."""
        _, text = self.get("/metrics")
        found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:]

    def forget_log(self) -> None:
        """Empty its log: a line for each of thousands of requests, with thousands of names in it, adds up."""
        with self.log.open("r+b") as log:
            log.truncate(0)


@contextlib.contextmanager
def running(
    folder: Path, authority: Authority, api: str, flags: Sequence[str]
) -> Iterator[Evaluator]:
    """Start it on an API server, under the name that it has when installed; it is not ready yet."""
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
            f"--port={extender.number}",
            f"--agentPort={agents.number}",
            f"--opsPort={ops.number}",
            "--leaderElect=false",  # it is alone, and writes at once
            "--kubeQPS=1000",  # the labels of the beginning are not what is measured
            *flags,
        ]
        with processes.program(argv, log) as process:
            ports = (extender.number, agents.number, ops.number)
            found = Evaluator(process.pid, *ports, log)
            found.until("/healthz")
            yield found
            if process.poll() is not None:
                raise ChildProcessError(f"the evaluator died: {found.last_words()}")
