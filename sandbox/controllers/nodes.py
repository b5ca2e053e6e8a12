"""Simulated nodes: Node objects, heartbeats and leases. Real agents provide the telemetry."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import aiohttp

from plimsoll import VERSION, logs, rfc3339
from sandbox.client.client import STRATEGIC, ApiError, Client, ensure
from sandbox.client.objects import LEASES, NAMESPACES, NODES, Object

log = logs.get(__name__)

CAPACITY: Mapping[str, str] = {
    "cpu": "8",
    "ephemeral-storage": "100Gi",
    "memory": "16Gi",
    "pods": "110",
    "telemetry/scheduling": "10k",
}

HEARTBEAT = 10.0
LEASE_NAMESPACE = "kube-node-lease"

_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)


def address(index: int) -> str:
    """Return the internal address of the node with this index."""
    return f"10.0.{index // 250}.{index % 250 + 1}"


def node_object(name: str, index: int, *, now: float) -> Object:
    """Return a Node as its kubelet would register it."""
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": f"10.244.{index}.0/24", "podCIDRs": [f"10.244.{index}.0/24"]},
        "status": {
            "capacity": dict(CAPACITY),
            "allocatable": dict(CAPACITY),
            "conditions": conditions(now, since=now),
            "addresses": [
                {"type": "InternalIP", "address": address(index)},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": _node_info(name),
        },
    }


def conditions(now: float, *, since: float) -> list[Object]:
    """Return a healthy node's conditions with a heartbeat of now."""
    return [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": rfc3339.seconds(now),
            "lastTransitionTime": rfc3339.seconds(since),
            "reason": reason,
            "message": reason,
        }
        for kind, status, reason in _CONDITIONS
    ]


def lease_object(node: Object, *, now: float) -> Object:
    """Return the Lease of a node's heartbeat."""
    meta = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": meta["name"],
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": meta["name"],
            "leaseDurationSeconds": 40,
            "renewTime": rfc3339.micros(now),
        },
    }


class Nodes:
    """Registers nodes and renews their Ready condition and Lease."""

    def __init__(
        self, client: Client, names: Sequence[str], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._names = tuple(names)
        self._clock = clock
        self._since = 0.0

    async def register(self) -> None:
        """Create the Node objects and their Leases."""
        self._since = self._clock()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
        await ensure(self._client, NAMESPACES, namespace)
        for index, name in enumerate(self._names):
            body = node_object(name, index, now=self._since)
            node = await self._client.create(NODES, body)
            await self._client.update(
                NODES, node | {"status": body["status"]}, subresource="status"
            )
            await self._client.create(LEASES, lease_object(node, now=self._since))

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            for name in self._names:
                try:
                    await self.beat(name)
                except (ApiError, aiohttp.ClientError, OSError) as error:
                    # Debug: a user may have deleted the node, and a kubelet does not bring it back.
                    log.debug("heartbeat failed", node=name, error=str(error))

    async def beat(self, name: str) -> None:
        """Send one heartbeat of a node: conditions and Lease."""
        now = self._clock()
        status = {"status": {"conditions": conditions(now, since=self._since)}}
        await self._client.patch(NODES, name, status, subresource="status", content_type=STRATEGIC)
        renewed = {"spec": {"renewTime": rfc3339.micros(now)}}
        await self._client.patch(LEASES, name, renewed, LEASE_NAMESPACE)


def _node_info(name: str) -> Object:
    return {
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
        "kernelVersion": "6.12.0",
        "osImage": "Plimsoll sandbox",
        "containerRuntimeVersion": f"sandbox://{VERSION}",
        "kubeletVersion": "v1.32.0",
        "kubeProxyVersion": "v1.32.0",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
