"""Cost of scorers: one assessment of all nodes, and filter and prioritize over HTTP for a sequence of pods.

`assess_*` is the scorer alone, in this process, on a constant snapshot. `filter_*`, `prioritize_*` and their sum `pod_*` are
latencies at kube-scheduler: names only, all nodes, over mutual TLS, with the real evaluator on an API server with four pods
on each node. Each pod has other requests, so no result is reused. `cpu_ms` is CPU time of the process per pod, `queued_ms`
the time its threads waited for a CPU. Every response is checked. One JSON line per scorer, times in milliseconds.

    python -P bench/scorers.py [--nodes 5000] [--requests 200] [--only safe,pigeon]
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec

from bench import commandline, measure, podcluster, site
from bench.measure import Usage
from bench.podcluster import PodCluster
from bench.scheduler import Connection, Reply, WrongAnswerError
from bench.site import Site
from bench.timing import timed
from evaluator.features.scorers import registry
from evaluator.features.scorers.plugin import Scorer, ScorerResult
from evaluator.features.scorers.registry import BUILT_IN, ScorerOptions

AIM = "pod_p50_ms <= 15 loops"
_WARM_UP = 5

Line = dict[str, Any]


def alone(scorer: Scorer, nodes: int, repeats: int) -> Line:
    """Measure assessments of a sequence of pods."""
    view = PodCluster(nodes).view()
    pods = [
        podcluster.pod_view(*amounts)
        for amounts in islice(podcluster.arrivals(), _WARM_UP + repeats)
    ]
    times = [timed(scorer.score, view, pod)[1].clock for pod in pods]
    return _figures("assess", times[_WARM_UP:])


def _figures(what: str, times: Sequence[float]) -> Line:
    return {
        f"{what}_p{share}_ms": round(1000 * measure.percentile(times, share / 100), 3)
        for share in (50, 99)
    }


class Questions:
    """Sends filter and prioritize for new pods to one scorer; the expected result is computed by the scorer from the data in
    Prometheus and the API server.
    """

    def __init__(self, connection: Connection, name: str, scorer: Scorer, nodes: int) -> None:
        self._connection = connection
        self._name = name
        self._scorer = scorer
        self._view = PodCluster(nodes).view()
        self._names = podcluster.shuffled(self._view.nodes)

    def ask(self, number: int, cpu: int, memory: int) -> tuple[float, float]:
        """Send both requests for a pod. Returns the latencies in seconds. Raises WrongAnswerError."""
        pod = podcluster.pod(f"new-{number}", cpu, memory)
        body = msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": self._names})
        seen = replace(podcluster.pod_view(cpu, memory), uid=pod["metadata"]["uid"])
        right = self._scorer.score(self._view, seen)
        self._view = replace(self._view, demands=self._view.demands.seen(seen))
        filtered = self._post("filter", body)
        self._check_filter(json.loads(bytes(filtered.body)), right)
        scored = self._post("prioritize", body)
        self._check_scores(json.loads(bytes(scored.body)), right)
        return filtered.seconds, scored.seconds

    def _post(self, verb: str, body: bytes) -> Reply:
        reply = self._connection.post(verb, body, f"/scorers/{self._name}")
        if reply.status != 200:
            said = bytes(reply.body[:300])
            raise WrongAnswerError(f"{self._name} {verb}: {reply.status}: {said!r}")
        return reply

    def _check_filter(self, answer: Line, right: ScorerResult) -> None:
        refusals = [one for some in right.refusals.values() for one in some]
        refused = {name for one in refusals for name in self._view.nodes.at(one.where)}
        passing = [name for name in self._names if name not in refused]
        if answer["FailedNodes"].keys() != refused or answer["NodeNames"] != passing:
            failed = len(answer["FailedNodes"])
            raise WrongAnswerError(f"{self._name} filter: {failed} fail, not {len(refused)}")

    def _check_scores(self, answer: Sequence[Line], right: ScorerResult) -> None:
        scores = right.scores[self._scorer.priorities[0]].tolist()
        wanted = dict(zip(self._view.nodes, scores, strict=True))
        found = {one["Host"]: one["Score"] for one in answer}
        if found != wanted:
            wrong = sum(found.get(name) != score for name, score in wanted.items())
            raise WrongAnswerError(f"{self._name} prioritize: {wrong} scores are wrong")


def asked(at: Site, name: str, scorer: Scorer, requests: int) -> Line:
    """Measure this many pods in sequence."""
    server, pods = at.evaluator, islice(podcluster.arrivals(), _WARM_UP + requests)
    with Connection(server.port, at.authority.client_context()) as connection:
        questions = Questions(connection, name, scorer, len(at.names))
        before = Usage.of(server.pid)
        times = [questions.ask(number, *amounts) for number, amounts in enumerate(pods)]
        after = Usage.of(server.pid)
    server.forget_log()
    filtered, scored = zip(*times[_WARM_UP:], strict=True)
    return {
        **_figures("filter", filtered),
        **_figures("prioritize", scored),
        **_figures("pod", [sum(pair) for pair in times[_WARM_UP:]]),
        **after.of_each(before, len(times)),
    }


def measured(
    nodes: int = 5000, requests: int = 200, only: Sequence[str] = tuple(BUILT_IN)
) -> Iterator[Line]:
    """Yield the line of each scorer."""
    loaded = registry.load(ScorerOptions(scorers=tuple(only)))
    with site.steady(nodes, 0, (f"--scorers={','.join(only)}",), with_pods=True) as at:
        for name, scorer in loaded.items():
            line = {"benchmark": "scorers", "case": name, "nodes": nodes, "requests": requests}
            line |= alone(scorer, nodes, requests) | asked(at, name, scorer, requests)
            yield line | {"aim": AIM}


if __name__ == "__main__":
    commandline.run(measured)
