"""A stand-in for the kubelets of all simulated nodes: bound pods become running, deleted pods end. Nothing is executed."""

import asyncio
import time
from collections.abc import Callable, Sequence

import aiohttp

from plimsoll import logs, rfc3339
from sandbox.client.client import ApiError, Client
from sandbox.client.informer import Informer, following
from sandbox.client.objects import PODS, Object, key_of
from sandbox.controllers import nodes

log = logs.get(__name__)

_RETRY = 1.0
_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)


class Kubelet:
    """Runs the pods of some nodes. `grace`: seconds that a deleted pod takes to stop."""

    def __init__(
        self,
        client: Client,
        names: Sequence[str],
        *,
        grace: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._nodes = {name: index for index, name in enumerate(names)}
        self._grace = grace
        self._clock = clock
        self._started: set[str] = set()  # uids
        self._stopped_at: dict[str, float] = {}  # by uid, on the loop's clock
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._addresses = 0
        self._pods = Informer(client, PODS, self._changed)

    async def run(self) -> None:
        """Run pods until cancelled."""
        async with following(self._pods):
            while True:
                key = await self._due.get()
                if (pod := self._pods.objects.get(key)) is None:
                    continue
                try:
                    await self._sync(pod)
                except (ApiError, aiohttp.ClientError, OSError) as error:
                    log.warning("pod not synced, trying again", pod=key, error=str(error))
                    self._later(_RETRY, key)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._started.discard(old["metadata"]["uid"])
            self._stopped_at.pop(old["metadata"]["uid"], None)
        elif new["spec"].get("nodeName") in self._nodes:
            self._due.put_nowait(key_of(new))

    async def _sync(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            now = asyncio.get_running_loop().time()
            left = self._stopped_at.setdefault(uid, now + self._grace) - now
            if left > 0:
                self._later(left, key_of(pod))
            else:
                await self._remove(pod)
        elif uid not in self._started and needs_start(pod):
            await self._start(pod)
            self._started.add(uid)

    async def _start(self, pod: Object) -> None:
        index = self._nodes[pod["spec"]["nodeName"]]
        self._addresses += 1
        status = running(
            pod,
            host_ip=nodes.address(index),
            pod_ip=f"10.244.{index}.{self._addresses % 250 + 2}",
            now=self._clock(),
        )
        meta = pod["metadata"]
        await self._client.patch(
            PODS,
            meta["name"],
            {"metadata": {"uid": meta["uid"]}, "status": status},
            meta["namespace"],
            subresource="status",
        )

    async def _remove(self, pod: Object) -> None:
        meta = pod["metadata"]
        try:
            await self._client.delete(
                PODS, meta["name"], meta["namespace"], grace=0, uid=meta["uid"]
            )
        except ApiError as error:
            if error.status not in {404, 409}:  # gone already, or another pod of that name
                raise

    def _later(self, delay: float, key: str) -> None:
        asyncio.get_running_loop().call_later(delay, self._due.put_nowait, key)


def needs_start(pod: Object) -> bool:
    """Return whether a bound pod has not been started; another client may have written its status."""
    return bool((pod.get("status") or {}).get("phase", "Pending") == "Pending")


def running(pod: Object, *, host_ip: str, pod_ip: str, now: float) -> Object:
    """Return the status of a pod whose containers all run and are ready."""
    at = rfc3339.seconds(now)
    others = (pod.get("status") or {}).get("conditions") or []
    status: Object = {
        "phase": "Running",
        "conditions": [
            *(other for other in others if other["type"] not in _CONDITIONS),
            *(
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": at}
                for kind in _CONDITIONS
            ),
        ],
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": at,
        "containerStatuses": [
            _container(pod, container, {"running": {"startedAt": at}})
            for container in pod["spec"]["containers"]
        ],
    }
    if inits := pod["spec"].get("initContainers"):
        done = {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}
        status["initContainerStatuses"] = [
            _container(pod, one, {"terminated": done}) for one in inits
        ]
    return status


def _container(pod: Object, container: Object, state: Object) -> Object:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": image,
        "containerID": f"sandbox://{pod['metadata']['uid']}/{container['name']}",
        "ready": True,
        "restartCount": 0,
        "started": "running" in state,
        "state": state,
    }
