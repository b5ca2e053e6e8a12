"""Gangs in the simulation: pods that come and go, a scheduler for ungated pods, and invariants.

The pods have no controller: a gang is admitted while one of its ungated pods lives.
"""

import asyncio
import contextlib

from cluster import NAMESPACE

from sandbox.client.client import JSON_PATCH, ApiError
from sandbox.client.objects import PODS

NEEDED = {"pair": 2, "trio": 3, "crowd": 5}
"""Gangs and their minAvailable."""
OURS, THEIRS = "plimsoll.io/gang", "example.com/theirs"
MOST = 30
"""Maximum pods of all gangs: all fit."""
LATE = 100.0
"""Maximum seconds for a list and the following patch: the API server may be slow, or all be suspended."""


class Gangs:
    """Random events of gangs; `say` reports violations."""

    def __init__(self, world, rng, say):
        self._world = world
        self._rng = rng
        self._say = say
        self._made = 0
        self._whole = set()
        """Gangs with quorum."""
        self._whole_at = {}
        """Gang → when it last had quorum, as of the last change."""
        self._without_theirs = set()
        """Pods whose owner lifts the foreign gate."""
        self.lifted = 0
        world.server.store.listen(self._changed)

    def pods(self, group=""):
        """All pods, or those of one gang."""
        found = self._world.admin.objects("pods")
        return [pod for pod in found if (name := group_of(pod)) and group in ("", name)]

    # Events.

    async def come(self, group="", count=1):
        """Create pods of a gang."""
        group = group or self._rng.choice(sorted(NEEDED))
        for _ in range(min(count, MOST - len(self.pods()))):
            self._made += 1
            gates = [OURS] + [THEIRS] * (self._rng.random() < 0.2)
            labels = {"podGroup": group, "minAvailable": str(NEEDED[group])}
            labels["groupPriority"] = str(self._rng.randint(0, 3))
            requests = {"requests": {"cpu": "500m"}}
            await self._world.admin.client.create(
                PODS,
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"{group}-{self._made}",
                        "namespace": NAMESPACE,
                        "labels": labels,
                    },
                    "spec": {
                        "schedulingGates": [{"name": gate} for gate in gates],
                        "containers": [{"name": "c", "image": "none", "resources": requests}],
                        "terminationGracePeriodSeconds": 0,
                    },
                },
            )

    async def come_whole(self):
        """Create as many pods as needed at once."""
        group = self._rng.choice(sorted(NEEDED))
        await self.come(group, NEEDED[group])

    async def go(self, *, whole=False):
        """Delete a pod, or all of its gang."""
        if pods := self.pods():
            chosen = self._rng.choice(pods)
            for pod in self.pods(group_of(chosen)) if whole else [chosen]:
                with contextlib.suppress(ApiError):
                    name = pod["metadata"]["name"]
                    await self._world.admin.client.delete(PODS, name, NAMESPACE, grace=0)

    async def take_theirs_off(self, *, everywhere=False):
        """Lift a pod's foreign gate."""
        held = [pod for pod in self.pods() if THEIRS in gates_of(pod)]
        for pod in held if everywhere else held[:1]:
            name, place = pod["metadata"]["name"], gates_of(pod).index(THEIRS)
            path = f"/spec/schedulingGates/{place}"
            body = ({"op": "test", "path": f"{path}/name", "value": THEIRS},)
            body += ({"op": "remove", "path": path},)
            self._without_theirs.add(pod["metadata"]["uid"])
            with contextlib.suppress(ApiError):  # our write happened at the same moment
                await self._world.admin.client.patch(
                    PODS, name, body, NAMESPACE, content_type=JSON_PATCH
                )

    async def schedule(self):
        """Forever: bind each ungated pod to a node."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.2, 2.0))
            nodes = sorted(self._world.admin.nodes())
            for pod in self.pods():
                if nodes and not pod["spec"].get("nodeName") and not gates_of(pod):
                    with contextlib.suppress(ApiError):
                        await self._world.admin.client.bind(pod, self._rng.choice(nodes))

    # Invariants.

    def _changed(self, change):
        if change.collection != "pods" or change.record is None:
            return
        pod, now = change.record.obj, self._world.clock.now
        if not (group := group_of(pod)):
            return
        if group in self._whole:
            self._whole_at[group] = now
        if change.before is not None and change.type == "MODIFIED":
            self._check(pod, gates_of(change.before.obj), gates_of(pod))
        if len(self.pods(group)) >= NEEDED[group]:
            self._whole.add(group)
        else:
            self._whole.discard(group)

    def _check(self, pod, before, after):
        name, group, now = pod["metadata"]["name"], group_of(pod), self._world.clock.now
        taken_off = pod["metadata"]["uid"] in self._without_theirs
        if THEIRS in before and THEIRS not in after and not taken_off:
            self._say(f"{name} has lost a gate that is not ours")
        if OURS in before and OURS not in after:
            self.lifted += 1
            if now - self._whole_at.get(group, -LATE) > LATE:
                self._say(f"{name} was let go, and {group} has not been whole for {LATE} s")
            if "plimsoll.io/admitted-at" not in (pod["metadata"].get("annotations") or {}):
                self._say(f"{name} was let go, and does not say so")

    def check_calm(self, replicas):
        """Each gang with quorum is released whole; of one without, no pod was released since it lost it."""
        for group, needed in NEEDED.items():
            pods = self.pods(group)
            held = [pod["metadata"]["name"] for pod in pods if gates_of(pod)]
            bare = [pod for pod in pods if not gates_of(pod) and not pod["spec"].get("nodeName")]
            if len(pods) >= needed and held:
                self._say(f"{group} has {len(pods)} of {needed} pods, and held are {held}")
            if bare:
                self._say(f"{len(bare)} pods of {group} have no node")
        for replica in replicas:
            if replica.leads and replica.gangs_wait_for:
                self._say(f"{replica.name} does not decide on gangs: {replica.gangs_wait_for}")


def group_of(pod):
    return (pod["metadata"].get("labels") or {}).get("podGroup", "")


def gates_of(pod):
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
