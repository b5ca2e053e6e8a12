"""Which questions about past decisions each record answers, with the real programs.

Starts the sandbox, makes nodes violate a policy and recover, with pods that are refused, evicted and placed, and edits the
policy. Then looks up each fact that it saw happen in

    cluster          nodes, pods, policies and Events
    without_events   the same an hour later: API servers delete Events then
    log              the evaluator's log
    history          its history, with the last answer about each pod
    restarted        its history after a restart
    file             the file of --historyFile

A source answers if one record, dated within two seconds of the fact, names all that the fact names. Prints a JSON line for
each question, with the number of facts and of those that each source answers.

    python -P bench/aftermath.py [--rounds 8]
"""

import asyncio
import json
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import aiohttp

from bench import commandline
from bench.commandline import Line
from plimsoll import rfc3339
from sandbox.client import events
from sandbox.client.client import ApiError, ensure
from sandbox.client.objects import EVENTS, NAMESPACES, NODES, PODS, POLICIES, Object, key_of
from sandbox.cluster import EVALUATOR, Cluster, ClusterSpec

NAMESPACE, POLICY = "health-metric-demo", "demo-policy"
LABEL = f"{POLICY}=violating"
PLACED = "which node a pod was placed on"
WRITTEN = "which label a node got"
BEGAN = "when a node began to violate a policy"
READING = "and with which reading"
EVICTED = "which pod was evicted from which node"
REASON = "why a pod was refused"
REFUSED = "and which node was refused to it"
REFUSED_READING = "and with which reading of it"
ENDED = "when a violation ended"
EDITED = "when a policy was edited"

_POLL = 0.05
_SLACK = 2.0
"""Seconds: Events and conditions have whole seconds."""


class Fact(NamedTuple):
    """Something that happened between two times (Unix seconds). `words`: patterns that a record of it contains."""

    question: str
    begin: float
    end: float
    words: tuple[str, ...]


class Record(NamedTuple):
    """What a source has: a text with a time (Unix seconds)."""

    at: float
    text: str


def answered(fact: Fact, records: Iterable[Record]) -> bool:
    """Return whether a record answers."""
    return any(
        fact.begin - _SLACK <= record.at <= fact.end + _SLACK
        and all(re.search(word, record.text) for word in fact.words)
        for record in records
    )


class Site:
    """A sandbox, and the facts that were seen there."""

    def __init__(self, cluster: Cluster, http: aiohttp.ClientSession) -> None:
        self._cluster = cluster
        self._http = http
        self.facts: list[Fact] = []

    async def round(self, number: int) -> None:
        """Let a node violate the policy and recover, and edit the policy."""
        reading, running, pinned = f"{2.5 + number / 100:g}", f"app-{number}", f"web-{number}"
        value, begin = rf"\b{re.escape(reading)}\b", time.time()
        await self._create(running)
        node = str(await self._until(self._node_of, running))
        self._saw(PLACED, begin, running, node)
        begin = time.time()
        self._report(node, reading)
        await self._until(self._labelled, node)
        self._saw(WRITTEN, begin, node, LABEL)
        self._saw(BEGAN, begin, node, POLICY, "violat")
        self._saw(READING, begin, node, POLICY, "violat", value)
        await self._until(self._is_gone, running)
        self._saw(EVICTED, begin, running, node, POLICY, "[Ee]vict")
        begin = time.time()
        await self._create(pinned, node)
        await self._until(self._refusal, pinned)
        self._saw(REASON, begin, pinned, f"violating {POLICY}")
        self._saw(REFUSED, begin, pinned, node, f"violating {POLICY}")
        self._saw(REFUSED_READING, begin, pinned, node, f"violating {POLICY}", value)
        if number % 2:
            await self._cluster.client.delete(PODS, pinned, NAMESPACE, grace=0)
        begin = time.time()
        self._report(node, "0")
        await self._until(self._unlabelled, node)
        self._saw(ENDED, begin, node, POLICY, "clear|no longer")
        if not number % 2:
            await self._until(self._node_of, pinned)
            self._saw(PLACED, begin, pinned, node)
        begin = time.time()
        await self._cluster.client.patch(POLICIES, POLICY, _policy(1.5 + number / 100), NAMESPACE)
        self._saw(EDITED, begin, POLICY, "edited|f:spec")
        await asyncio.sleep(2 * _SLACK + 1)  # so that no record of this round answers for the next

    def _saw(self, question: str, begin: float, *words: str) -> None:
        self.facts.append(Fact(question, begin, time.time(), words))

    async def _until(self, look: Callable[[str], Awaitable[object]], name: str) -> object:
        """Return what a look returns as soon as it is true."""
        while not (found := await look(name)):  # noqa: ASYNC110 (an object of the cluster)
            await asyncio.sleep(_POLL)
        return found

    def _report(self, node: str, reading: str) -> None:
        file = self._cluster.node_metrics(node) / "text.prom"
        file.write_text(f"node_health_metric {reading}\n")

    async def _create(self, name: str, node: str = "") -> None:
        meta = {"name": name, "namespace": NAMESPACE, "labels": {"telemetry-policy": POLICY}}
        resources = {"limits": {"telemetry/scheduling": 1}, "requests": {"telemetry/scheduling": 1}}
        spec = {
            "containers": [{"name": "c", "image": "none", "resources": resources}],
        }
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await self._cluster.client.create(PODS, body)

    async def _pod(self, name: str) -> Object | None:
        try:
            return await self._cluster.client.get(PODS, name, NAMESPACE)
        except ApiError:
            return None

    async def _node_of(self, name: str) -> str:
        return str(((await self._pod(name)) or {}).get("spec", {}).get("nodeName", ""))

    async def _is_gone(self, name: str) -> bool:
        return await self._pod(name) is None

    async def _refusal(self, name: str) -> Object | None:
        return await events.find(self._cluster.client, NAMESPACE, name, "FailedScheduling")

    async def _labelled(self, node: str) -> bool:
        labels = (await self._cluster.client.get(NODES, node))["metadata"].get("labels", {})
        return POLICY in labels

    async def _unlabelled(self, node: str) -> bool:
        return not await self._labelled(node)

    async def objects(self, *, with_events: bool) -> list[Record]:
        """Return what the cluster has."""
        found: list[Record] = []
        for kind in (NODES, PODS, POLICIES, *([EVENTS] if with_events else [])):
            for obj in (await self._cluster.client.list(kind)).items:
                found += _of_object(obj)
        return found

    def log(self) -> list[Record]:
        """Return the lines of the evaluator's log."""
        lines = (self._cluster.dir / "logs" / f"{EVALUATOR}.log").read_text().splitlines()
        return [*filter(None, map(_of_line, lines))]

    async def history(self) -> list[Record]:
        """Return the records of the history."""
        found, query = [], ""
        while True:
            url = f"{self._cluster.endpoints.ops}/history.json{query}"
            async with self._http.get(url) as response:
                page = await response.json()
            found += [Record(_time(one["at"]), json.dumps(one)) for one in page["records"]]
            number = page["window"]["page"]
            if number >= page["window"]["pages"]:
                break
            query = f"?page={number + 1}"
        for name in {fact.words[0] for fact in self.facts if fact.question == REFUSED}:
            url = f"{self._cluster.endpoints.ops}/explain?pod={NAMESPACE}/{name}"
            async with self._http.get(url) as response:
                decision = ((await response.json()).get("past") or {}).get("decision")
            if decision:
                found.append(Record(_time(decision["at"]), f"{name} {json.dumps(decision)}"))
        return found


def _of_object(obj: Object) -> Iterator[Record]:
    """Yield the parts of an object that have a time."""
    meta, key = obj["metadata"], key_of(obj)
    if "involvedObject" in obj:
        text = f"{key_of({'metadata': obj['involvedObject']})} {obj['reason']} {obj['message']}"
        for field in ("firstTimestamp", "lastTimestamp"):
            yield Record(_time(obj[field]), text)
        return
    for entry in meta.get("managedFields", ()):
        yield Record(_time(entry["time"]), f"{key} {json.dumps(entry)}")
    for condition in obj.get("status", {}).get("conditions", ()):
        if since := condition.get("lastTransitionTime"):
            node = obj.get("spec", {}).get("nodeName", "")
            yield Record(_time(since), f"{key} {node} {json.dumps(condition)}")


def _of_json(line: str) -> Record:
    return Record(_time(json.loads(line)["at"]), line)


def _of_line(line: str) -> Record | None:
    found = re.search(r"\d{4}-\d\d-\d\d[T ][0-9:.]+Z?", line)
    return Record(_time(found[0]), line) if found else None


def _time(text: str) -> float:
    at = rfc3339.parse_or_none(text)
    if at is None:
        raise ValueError(text)
    return at


async def measured(rounds: int = 8) -> AsyncIterator[Line]:
    """Yield the line of each question."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "history.jsonl"
        flags = ("--evict", f"--historyFile={file}")
        spec = ClusterSpec(dir=Path(folder), sync_period=1.0, evaluator_flags=flags)
        async with Cluster(spec) as cluster, aiohttp.ClientSession() as http:
            site = Site(cluster, http)
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await ensure(cluster.client, NAMESPACES, namespace)
            admitted = {"plimsoll.io/evict": "bare-pods"}  # the pods have no controller
            meta = {"name": POLICY, "namespace": NAMESPACE, "annotations": admitted}
            body = {"apiVersion": POLICIES.api_version, "kind": "TASPolicy", "metadata": meta}
            await cluster.client.create(POLICIES, body | _policy(1))
            for node in spec.nodes:
                (cluster.node_metrics(node) / "text.prom").write_text("node_health_metric 0\n")
            await asyncio.sleep(3.0)
            for number in range(rounds):
                await site.round(number)
            sources = {
                "cluster": await site.objects(with_events=True),
                "without_events": await site.objects(with_events=False),
                "log": site.log(),
                "history": await site.history(),
            }
            await cluster.restart_evaluator()
            sources["restarted"] = await site.history()
            sources["file"] = [*map(_of_json, file.read_text().splitlines())]
    for question in dict.fromkeys(fact.question for fact in site.facts):
        facts = [fact for fact in site.facts if fact.question == question]
        yield {
            "benchmark": "aftermath",
            "case": question,
            "facts": len(facts),
            **{
                name: sum(answered(fact, records) for fact in facts)
                for name, records in sources.items()
            },
        }


def _policy(limit: float) -> Object:
    """Return the spec of the policy; `limit` of dontschedule."""

    def rules(target: float) -> Object:
        rule = {"metricname": "health_metric", "operator": "GreaterThan", "target": target}
        return {"rules": [rule]}

    return {"spec": {"strategies": {"dontschedule": rules(limit), "deschedule": rules(2)}}}


if __name__ == "__main__":
    commandline.run(measured)
