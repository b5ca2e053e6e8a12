"""Starts a real Prometheus server, and queries it."""

import contextlib
import json
import re
import subprocess
import threading

import urllib3

from agent.rules.promql import labels

OPEN = 3
"""The release from which on ranges are open."""


class AskedError(Exception):
    """A query that Prometheus rejects."""


def release(program="prometheus"):
    """The major release of a program of Prometheus on PATH."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return int(re.search(r"version (\d+)", said.stdout + said.stderr)[1])


class Prometheus:
    """A client of Prometheus' HTTP API.

    Prometheus closes connections that are idle for five minutes, and a slow run leaves them idle for longer.
    The pool replaces a closed connection, and retries a query, which has no side effects, whose connection broke.
    """

    def __init__(self, address):
        self.address = address
        retries = urllib3.Retry(3, allowed_methods=None)
        host, port = address.split(":")
        self._pool = urllib3.HTTPConnectionPool(host, int(port), timeout=None, retries=retries)

    def ask(self, expression, time):
        """The result as in our evaluation: a number, a string, or {labels: value}. Raises AskedError if rejected."""
        kind, result = self._query(expression, time)
        if kind in {"scalar", "string"}:
            return float(result[1]) if kind == "scalar" else result[1]
        if kind == "matrix":
            raise AskedError("a range vector, which no rule can record")
        return {labels.make(one["metric"].items()): float(one["value"][1]) for one in result}

    def samples(self, selector, time):
        """Times and values of the one series that a range selector selects, without stale markers."""
        (series,) = self._query(selector, time)[1]
        return [(round(seconds * 1000), float(value)) for seconds, value in series["values"]]

    def _query(self, expression, time):
        form = {"query": expression, "time": f"{time // 1000}.{time % 1000:03}"}
        answer = self._pool.request_encode_body(
            "POST", "/api/v1/query", form, encode_multipart=False
        ).json()
        if answer["status"] != "success":
            raise AskedError(answer["error"])
        return answer["data"]["resultType"], answer["data"]["result"]

    def close(self):
        self._pool.close()


@contextlib.contextmanager
def running(folder, config):
    """Start Prometheus with its storage below a folder and wait until it is ready."""
    (folder / "prometheus.yml").write_text(json.dumps(config))
    argv = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        "--web.listen-address=127.0.0.1:0",
    ]
    quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **quiet) as process:
        try:
            address = ready(process)
            log = threading.Thread(target=process.stderr.read)  # a full pipe would block it
            log.start()
            with contextlib.closing(Prometheus(address)) as connected:
                yield connected
        finally:
            process.kill()
        log.join()


def ready(process):
    """Wait for the address and the ready message, which come in either order."""
    seen = ""
    for line in process.stderr:
        seen += line
        listening = re.search(r"Listening on.*(127\.0\.0\.1:\d+)", seen)
        if listening and "Server is ready" in seen:
            return listening[1]
    raise AssertionError(seen)
