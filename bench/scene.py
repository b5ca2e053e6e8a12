"""The servers of a benchmark and the expected responses: evaluator, baseline, and cluster."""

import contextlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from bench import baseline, cluster, nodes, processes, site
from bench.authority import Authority
from bench.fleet import Fleet
from bench.scheduler import Connection, Truth, question
from bench.site import Site


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run."""

    nodes: int
    policies: int
    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Server:
    """A server with its address and process."""

    pid: int
    port: int
    authority: Authority

    def connect(self) -> Connection:
        """Connect like kube-scheduler."""
        return Connection(self.port, self.authority.client_context())


@dataclass(frozen=True, slots=True)
class Scene:
    """The evaluator and, if readings are constant, the baseline."""

    site: Site
    sizes: Sizes
    ours: Server
    baseline: Server
    fleet: Fleet | None = None

    def ask_about(self, count: int, *, whole: bool = False) -> Truth:
        """Return a request with this many nodes in random order, and the expected response by the initial readings."""
        everyone = self.site.names
        asked = random.Random(count).sample(range(len(everyone)), count)
        names = [everyone[index] for index in asked]
        objects = [_json(nodes.node(everyone[i], i)) for i in asked] if whole else None
        first, second = (cluster.readings(everyone, metric) for metric in cluster.METRICS[:2])
        about = question(names, objects)
        return Truth(about, cluster.violating(first), cluster.scores(second, names))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@contextlib.contextmanager
def steady(sizes: Sizes, count: int) -> Iterator[Scene]:
    with site.steady(count, sizes.policies) as found:
        first, second = (cluster.readings(found.names, metric) for metric in cluster.METRICS[:2])
        failing = dict.fromkeys(cluster.violating(first), f"{cluster.POD_POLICY} is violated")
        scores = cluster.scores(second, found.names)
        spec = baseline.Spec(found.authority, failing, scores)
        with processes.beside(baseline.run, spec, measured=True) as connection:
            ours = Server(found.evaluator.pid, found.evaluator.port, found.authority)
            pid, port = connection.recv()
            yield Scene(found, sizes, ours, Server(pid, port, found.authority))


@contextlib.contextmanager
def streaming(sizes: Sizes, count: int) -> Iterator[Scene]:
    with site.streaming(count, sizes.policies) as (found, fleet):
        ours = Server(found.evaluator.pid, found.evaluator.port, found.authority)
        yield Scene(found, sizes, ours, ours, fleet)
