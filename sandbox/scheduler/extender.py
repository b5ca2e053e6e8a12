"""Calls a scheduler extender as kube-scheduler does: same bodies, one keep-alive connection, same rules."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import aiohttp

from sandbox.client.objects import Object
from sandbox.scheduler.preemption import Victims

_MAX_SCORE = 10


@dataclass(frozen=True, slots=True)
class ExtenderSpec:
    """One extender of a KubeSchedulerConfiguration."""

    url: str  # urlPrefix, with its path: http://127.0.0.1:9001/scheduler
    managed_resources: frozenset[str] = frozenset({"telemetry/scheduling"})  # none: every pod
    node_cache_capable: bool = True
    weight: int = 1
    ignorable: bool = False
    timeout: float = 5.0
    preempt: bool = True  # whether it has a preemptVerb


@dataclass(frozen=True, slots=True)
class Filtered:
    """The nodes that an extender accepts, and its reasons for the others. `unresolvable`: those that preemption cannot help."""

    names: frozenset[str]
    refused: Mapping[str, str]
    unresolvable: frozenset[str] = frozenset()


class ExtenderError(Exception):
    """The extender returned no usable response; the attempt fails and is retried with back-off."""


class Extender:
    """One extender, as an async context manager that holds its connection."""

    def __init__(self, spec: ExtenderSpec) -> None:
        self.spec = spec
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1, keepalive_timeout=90),
            timeout=aiohttp.ClientTimeout(total=self.spec.timeout),
            headers={"Content-Type": "application/json", "Accept-Encoding": "gzip"},
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._session is not None:
            await self._session.close()

    def manages(self, pod: Object) -> bool:
        """Return whether this extender is called for a pod: it requests one of its managed resources."""
        if not self.spec.managed_resources:
            return True
        containers = (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))
        named = {
            name
            for container in containers
            for part in ("requests", "limits")
            for name in (container.get("resources") or {}).get(part) or {}
        }
        return not self.spec.managed_resources.isdisjoint(named)

    async def filter(self, pod: Object, nodes: Sequence[Object]) -> Filtered:
        """Call filter: which of these nodes are feasible."""
        body = arguments(pod, nodes, node_cache_capable=self.spec.node_cache_capable)
        return filtered(await self._post("filter", body), nodes)

    async def prioritize(self, pod: Object, nodes: Sequence[Object]) -> dict[str, int]:
        """Call prioritize: the score of each node, 0..10; unmentioned nodes get none."""
        body = arguments(pod, nodes, node_cache_capable=self.spec.node_cache_capable)
        return scores(await self._post("prioritize", body))

    async def preempt(self, pod: Object, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Call preempt: which nodes remain candidates, with which of their victims."""
        body = preemption_arguments(pod, victims, node_cache_capable=self.spec.node_cache_capable)
        return remaining(await self._post("preempt", body), victims)

    async def _post(self, verb: str, body: bytes) -> object:
        if self._session is None:
            raise RuntimeError("use the extender inside `async with`")
        url = f"{self.spec.url.rstrip('/')}/{verb}"
        try:
            async with self._session.post(url, data=body) as response:
                text = await response.read()
                if response.status != 200:
                    raise ExtenderError(
                        f"failed {verb} with extender at URL {url}, code {response.status}"
                    )
                return json.loads(text)
        except (TimeoutError, aiohttp.ClientError) as error:
            # The class, not the text: it is the same each time, so the pod's condition is too.
            raise ExtenderError(f"Post {url}: {type(error).__name__}") from error
        except ValueError as error:
            raise ExtenderError(f"{verb} at {url}: the reply is not JSON") from error


def arguments(pod: Object, nodes: Sequence[Object], *, node_cache_capable: bool) -> bytes:
    """Return the ExtenderArgs body: all three keys, the unused one null, without kind and apiVersion."""
    names = [node["metadata"]["name"] for node in nodes]
    body = {
        "Pod": _bare(pod, managed_fields=False),
        "Nodes": None
        if node_cache_capable
        else {"metadata": {}, "items": [_bare(n) for n in nodes]},
        "NodeNames": names if node_cache_capable else None,
    }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def filtered(reply: object, nodes: Sequence[Object]) -> Filtered:
    """Decode an ExtenderFilterResult. A node in none of its lists is rejected without a reason."""
    if not isinstance(reply, dict):
        raise ExtenderError("filter: the reply is not an object")
    fields = {key.lower(): value for key, value in reply.items()}  # as Go's decoder matches them
    if fields.get("error"):
        raise ExtenderError(str(fields["error"]))
    if (names := fields.get("nodenames")) is None:
        items = (fields.get("nodes") or {}).get("items") or []
        names = [item["metadata"]["name"] for item in items]
    requested = {node["metadata"]["name"] for node in nodes}
    if unknown := sorted(set(names) - requested):
        raise ExtenderError(f"filter: the reply names {unknown[0]!r}, which is not in the request")
    unresolvable = fields.get("failedandunresolvablenodes") or {}
    refused = {**(fields.get("failednodes") or {}), **unresolvable}
    return Filtered(frozenset(names), refused, frozenset(unresolvable))


def preemption_arguments(
    pod: Object, victims: Mapping[str, Victims], *, node_cache_capable: bool
) -> bytes:
    """Return the ExtenderPreemptionArgs body: victims by UID, or as whole pods."""

    def listed(pods: tuple[Object, ...]) -> list[Object]:
        if node_cache_capable:
            return [{"UID": one["metadata"]["uid"]} for one in pods]
        return [_bare(one, managed_fields=False) for one in pods]

    by_node = {
        name: {"Pods": listed(one.pods), "NumPDBViolations": one.violations}
        for name, one in victims.items()
    }
    body = {
        "Pod": _bare(pod, managed_fields=False),
        "NodeNameToVictims": None if node_cache_capable else by_node,
        "NodeNameToMetaVictims": by_node if node_cache_capable else None,
    }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def remaining(reply: object, victims: Mapping[str, Victims]) -> dict[str, Victims]:
    """Decode an ExtenderPreemptionResult: only nodes and pods of the request."""
    if not isinstance(reply, dict):
        raise ExtenderError("preempt: the reply is not an object")
    fields = {key.lower(): value for key, value in reply.items()}
    found: dict[str, Victims] = {}
    for name, one in (fields.get("nodenametometavictims") or {}).items():
        pods = victims[name].pods if name in victims else ()
        by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
        uids = [pod["UID"] for pod in one.get("Pods") or ()]
        if unknown := [uid for uid in uids if uid not in by_uid]:
            raise ExtenderError(f"preempt: {name!r} has no victim {unknown[0]!r}")
        if not uids:
            raise ExtenderError(f"expected at least one victim pod on node {name!r}")
        violations = int(one.get("NumPDBViolations") or 0)
        found[name] = Victims(tuple(by_uid[uid] for uid in uids), violations)
    return found


def scores(reply: object) -> dict[str, int]:
    """Decode a HostPriorityList: an integer for each host, 0..10."""
    if reply is None:
        return {}
    if not isinstance(reply, list):
        raise ExtenderError("prioritize: the reply is not a list")
    scores_by_host = {}
    for item in reply:
        fields = {key.lower(): value for key, value in item.items()}
        score = fields["score"]
        if not isinstance(score, int) or not 0 <= score <= _MAX_SCORE:
            raise ExtenderError(f"prioritize: {fields['host']!r} got {score!r}, not one of 0..10")
        scores_by_host[str(fields["host"])] = score
    return scores_by_host


def _bare(obj: Object, *, managed_fields: bool = True) -> Object:
    bare = {key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}}
    if not managed_fields:  # kube-scheduler keeps them for nodes, not for pods
        meta = obj["metadata"].items()
        bare["metadata"] = {key: value for key, value in meta if key != "managedFields"}
    return bare
