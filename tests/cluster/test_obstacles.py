"""What keeps gangs from their pods on a real Kubernetes: its quotas charge pods that are held, its controllers stop at them."""

import asyncio
import contextlib
import secrets

import msgspec
import pytest

from evaluator.cache.pods import PodCache
from evaluator.gangs.core.index import GangIndex
from evaluator.gangs.core.podgroup import GangKey
from evaluator.gangs.core.types import GangDecisions, GangState, GangVerdict
from evaluator.gangs.diagnoser import Diagnoser
from evaluator.gangs.diagnosis.quota_usage import Member, charge
from evaluator.kubeapi.client import Kube
from evaluator.model.pod_record import decode
from plimsoll.quantity import exact
from sandbox.client.client import ApiError, Client
from sandbox.client.objects import DEPLOYMENTS, EVENTS, NAMESPACES, PODS, REPLICASETS, ObjectKind
from sandbox.envtest import NoControlPlaneError
from tests.patience import PATIENCE

QUOTAS = ObjectKind("resourcequotas", "v1")
JOBS = ObjectKind("jobs", "batch/v1")
STATEFUL_SETS = ObjectKind("statefulsets", "apps/v1")
GATES = [{"name": "plimsoll.io/gang"}]
CONTROLLERS = (
    "job-controller",
    "statefulset-controller",
    "deployment-controller",
    "replicaset-controller",
    "resourcequota-controller",
)
SHARED = {"cpu": "100", "memory": "100Gi", "ephemeral-storage": "100Gi", "hugepages-2Mi": "1Gi"}
HARD = (
    {"pods": "99", "count/pods": "99", "requests.example.com/gpu": "99", **SHARED}
    | {f"requests.{name}": amount for name, amount in SHARED.items()}
    | {f"limits.{name}": SHARED[name] for name in ("cpu", "memory", "ephemeral-storage")}
)


@pytest.fixture
async def client(control_plane):
    plane = control_plane
    async with Client(plane.url, token=plane.token, ca=plane.ca) as made:
        yield made


@pytest.fixture
async def kube(control_plane):
    made = await Kube.connect(str(control_plane.kubeconfig))
    yield made
    await made.close()


@pytest.fixture
async def namespace(client):
    name = f"obstacles-{secrets.token_hex(3)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    for kind in (JOBS, STATEFUL_SETS, DEPLOYMENTS, REPLICASETS):
        for one in (await client.list(kind, name)).items:
            await client.delete(kind, one["metadata"]["name"], name)
    await until(lambda: emptied(client, name))


async def emptied(client, namespace):
    """Others count the gangs of this API server: nobody else removes pods here, and a Job leaves finalizers on its own."""
    found = (await client.list(PODS, namespace)).items
    for pod in found:
        with contextlib.suppress(ApiError):
            name = pod["metadata"]["name"]
            await client.patch(PODS, name, {"metadata": {"finalizers": None}}, namespace)
            await client.delete(PODS, name, namespace, grace=0)
    return not found


@pytest.fixture
async def controllers(control_plane):
    with contextlib.ExitStack() as stack:
        try:
            is_up = stack.enter_context(control_plane.controllers(*CONTROLLERS))
        except NoControlPlaneError as error:
            pytest.skip(str(error))
        await until(is_up)
        yield


async def until(answer):
    async with asyncio.timeout(PATIENCE):
        while True:
            found = answer()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.05)


def container(requests, limits=None, *, name="c", **more):
    resources = {"requests": requests, "limits": limits or {}}
    return {"name": name, "image": "none", "resources": resources, **more}


FULL = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}
"""The server asks containers to say all that a quota limits."""


@pytest.mark.parametrize(
    "spec",
    [
        {
            "containers": [
                container(FULL, FULL),
                container(FULL, {**FULL, "cpu": "1500m"}, name="d"),
            ]
        },
        {
            "containers": [container(FULL, FULL)],
            "initContainers": [container(FULL, {**FULL, "memory": "5Gi"}, name="i")],
        },
        {
            "containers": [container(FULL, FULL)],
            "initContainers": [
                container(FULL, FULL, name="s", restartPolicy="Always"),
                container({**FULL, "cpu": "1250m"}, {**FULL, "cpu": "7"}, name="i"),
            ],
        },
        {
            "containers": [
                container(
                    FULL | {"example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
                    FULL | {"example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
                )
            ]
        },
        {
            "containers": [container(FULL, FULL)],
            "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4", "memory": "2Gi"}},
        },
    ],
    ids=["containers", "init", "sidecar", "extended", "pod-level"],
)
async def test_a_held_pod_is_charged_just_so(client, namespace, spec):
    hugepages = "extended" if any("gpu" in str(one) for one in spec["containers"]) else ""
    hard = {name: value for name, value in HARD.items() if hugepages or "hugepages" not in name}
    meta = {"name": "q", "namespace": namespace}
    await client.create(QUOTAS, {"metadata": meta, "spec": {"hard": hard}})
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    await client.patch(QUOTAS, "q", {"status": status}, namespace, subresource="status")
    body = {
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"schedulingGates": GATES, **spec},
    }

    async def charged():
        """The server hears of a new quota a moment after it has taken it in."""
        with contextlib.suppress(ApiError):
            made = await client.create(PODS, body)
            found = (await client.get(QUOTAS, "q", namespace))["status"]["used"]
            if found["pods"] == "1":
                return made, found
            await client.delete(PODS, "p", namespace, grace=0)
        return None

    made, found = await until(charged)
    used = {name: exact(amount) for name, amount in found.items() if exact(amount)}
    assert used == charge(msgspec.convert(made, Member))


class Looking:
    """An inquirer over what the API server says, and time that a test moves on."""

    def __init__(self, kube, client, namespace):
        self._client = client
        self._namespace = namespace
        self._now = 0.0
        self._inventory = PodCache(clock=lambda: self._now, wall=lambda: self._now)
        key = GangKey(namespace, "train")
        verdict = GangVerdict(GangState.INCOMPLETE, "", 0.0)
        roster = GangIndex(self._inventory)
        self._inquirer = Diagnoser(
            kube,
            lambda: roster.by_key,
            lambda: GangDecisions({key: verdict}),
            is_leader=lambda: True,
            clock=lambda: self._now,
        )

    async def pods(self):
        found = (await self._client.list(PODS, self._namespace)).items
        self._inventory.pods.replace([decode(msgspec.json.encode(pod)) for pod in found])
        return len(found)

    async def has(self, count):
        async def there():
            return await self.pods() == count

        await until(there)

    async def finds(self, *expected):
        async def told():
            await self.pods()
            await self._inquirer.round()
            self._now += 30.0
            found = self._inquirer.obstacles(GangKey(self._namespace, "train"))
            return found if len(found) == len(expected) else None

        assert await until(told) == expected


@pytest.fixture
def looking(kube, client, namespace):
    return Looking(kube, client, namespace)


async def limited(client, namespace, **hard):
    """A quota that is enforced from now on: before that it is one that lets nothing in, and that was seen to be enforced."""
    meta = {"name": "tight", "namespace": namespace}
    await client.create(QUOTAS, {"metadata": meta, "spec": {"hard": {"pods": "0"}}})
    await until(lambda: lets_in(client, namespace, nothing=True))
    change = {"spec": {"hard": {"pods": None, **hard}}}
    await client.patch(QUOTAS, "tight", change, namespace)

    async def counted():
        status = (await client.get(QUOTAS, "tight", namespace))["status"]
        return status.get("hard") == hard and status.get("used", {}).keys() == hard.keys()

    await until(counted)
    await until(lambda: lets_in(client, namespace))


async def lets_in(client, namespace, *, nothing=False):
    """Whether a small pod, which is not made, would be let in; or would be refused by what lets nothing in."""
    little = {"cpu": "1m", "memory": "1Mi"}
    spec = {"containers": [container(little, little)]}
    body = {"metadata": {"name": "probe", "namespace": namespace}, "spec": spec}
    try:
        await client.request("POST", PODS.path(namespace), body=body, params={"dryRun": "All"})
    except ApiError as error:
        return nothing and "limited: pods=0" in str(error)
    return not nothing


def template(**spec):
    labels = {"app": "train", "podGroup": "train", "minAvailable": "4"}
    worker = container({"cpu": "1"}, {"cpu": "1"})
    return {
        "metadata": {"labels": labels},
        "spec": {"schedulingGates": GATES, "containers": [worker], **spec},
    }


def job(namespace, *, parallelism=4, completions=4, **spec):
    return {
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {
            "parallelism": parallelism,
            "completions": completions,
            "template": template(restartPolicy="Never", **spec),
        },
    }


def replicated(namespace, **spec):
    return {
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "train"}}, "template": template(), **spec},
    }


async def test_a_quota_that_stops_a_job_is_named(controllers, client, namespace, looking):
    await limited(client, namespace, pods="2")
    await client.create(JOBS, job(namespace))
    await looking.has(2)
    await looking.finds("ResourceQuota tight allows 2 pods in the namespace, and the gang needs 4")


async def test_a_quota_of_limits_that_others_use_up_is_named(
    controllers, client, namespace, looking
):
    await limited(client, namespace, **{"limits.cpu": "5"})
    other = {"restartPolicy": "Never", "containers": [container({"cpu": "2"}, {"cpu": "2"})]}
    await client.create(PODS, {"metadata": {"name": "o", "namespace": namespace}, "spec": other})
    await client.create(JOBS, job(namespace))
    await looking.has(4)
    await looking.finds(
        "ResourceQuota tight has 0 of 5 of limits.cpu left, and the gang lacks 1 pod of 1 each"
    )


async def test_a_job_tells_in_events_what_it_could_not_make(
    controllers, client, namespace, looking
):
    """Of a quota that came after its first pods, for which these say too little."""
    await client.create(JOBS, job(namespace, parallelism=2))
    await looking.has(2)
    await limited(client, namespace, **{"limits.memory": "1Gi"})
    await client.patch(JOBS, "train", {"spec": {"parallelism": 4}}, namespace)
    await looking.finds(
        "Job train could not make a pod when it tried last: failed quota: tight: must specify limits.memory for: c"
    )


async def test_an_orderly_stateful_set_stops_at_its_first_pod(
    controllers, client, namespace, looking
):
    body = replicated(namespace, replicas=4, serviceName="train")
    await client.create(STATEFUL_SETS, body)
    await looking.has(1)
    await looking.finds(
        "StatefulSet train makes a pod only when the one before it is ready (podManagementPolicy OrderedReady), "
        "and one that is held never is: make it anew with podManagementPolicy Parallel"
    )


async def test_a_job_of_too_little_parallelism_is_named(controllers, client, namespace, looking):
    await client.create(JOBS, job(namespace, parallelism=2))
    await looking.has(2)
    await looking.finds(
        "Job train makes 2 at once (parallelism): no more than 2 of the 4 pods that are needed"
    )


async def runs(client, namespace, kind, **spec):
    """One of this kind with four pods that are ready, and no gang; answers the template of one that is."""
    body = replicated(namespace, replicas=4, **spec)
    held = body["spec"]["template"]
    free = {**held["spec"], "schedulingGates": []}
    body["spec"]["template"] = {"metadata": {"labels": {"app": "train"}}, "spec": free}
    await client.create(kind, body)

    async def available():
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for pod in (await client.list(PODS, namespace)).items:
            status = {"status": {"phase": "Running", "conditions": [ready]}}
            name = pod["metadata"]["name"]
            await client.patch(PODS, name, status, namespace, subresource="status")
        found = await client.get(kind, "train", namespace)
        return found.get("status", {}).get("availableReplicas") == 4

    await until(available)
    return held


async def test_a_rollout_stops_at_the_first_pods_that_are_held(
    controllers, client, namespace, looking
):
    held = await runs(client, namespace, DEPLOYMENTS)
    await client.patch(DEPLOYMENTS, "train", {"spec": {"template": held}}, namespace)
    (name,) = await until(lambda: new_sets(client, namespace))
    await looking.finds(
        "Deployment train replaces its pods a few at a time, by now 2 of 4, and waits for those to be ready, which one "
        "that is held never is: the strategy Recreate replaces all at once",
        f"ReplicaSet {name} makes 2 at once (replicas): no more than 2 of the 4 pods that are needed",
    )
    recreate = {"type": "Recreate", "rollingUpdate": None}
    await client.patch(DEPLOYMENTS, "train", {"spec": {"strategy": recreate}}, namespace)

    async def replaced():
        await let_go(client, namespace)
        return await all_are_held(client, namespace)

    await until(replaced)


@pytest.mark.parametrize(
    ("policy", "helps"),
    [
        ("Parallel", "delete the pods of the old template"),
        ("OrderedReady", "make it anew with podManagementPolicy Parallel"),
    ],
)
async def test_so_does_that_of_a_stateful_set(
    controllers, client, namespace, looking, policy, helps
):
    spec = {"serviceName": "train", "podManagementPolicy": policy}
    held = await runs(client, namespace, STATEFUL_SETS, **spec)
    await client.patch(STATEFUL_SETS, "train", {"spec": {"template": held}}, namespace)

    async def one_goes():
        await let_go(client, namespace)
        found = await client.get(STATEFUL_SETS, "train", namespace)
        return found["status"].get("updatedReplicas") == 1

    await until(one_goes)
    await looking.finds(
        "StatefulSet train replaces its pods a few at a time, by now 1 of 4, and waits for those to be ready, which one "
        f"that is held never is: {helps}"
    )
    if policy == "Parallel":
        for pod in (await client.list(PODS, namespace)).items:
            if not pod["spec"].get("schedulingGates"):
                await client.delete(PODS, pod["metadata"]["name"], namespace, grace=0)
        await until(lambda: all_are_held(client, namespace))


async def let_go(client, namespace):
    """As a kubelet lets go of a pod that is to be deleted."""
    for pod in (await client.list(PODS, namespace)).items:
        if pod["metadata"].get("deletionTimestamp"):
            with contextlib.suppress(ApiError):  # its controller does so too, if it has no node
                await client.delete(PODS, pod["metadata"]["name"], namespace, grace=0)


async def all_are_held(client, namespace):
    found = (await client.list(PODS, namespace)).items
    return [pod for pod in found if pod["spec"].get("schedulingGates") == GATES][3:]


async def new_sets(client, namespace):
    """Those of the template with a gate that have their part of the pods."""
    found = (await client.list(REPLICASETS, namespace)).items
    return [
        one["metadata"]["name"]
        for one in found
        if one["spec"]["template"]["spec"].get("schedulingGates") and one["spec"]["replicas"] == 2
    ]


@pytest.mark.parametrize("plane", ["real"], indirect=True)
async def test_whoever_describes_a_pod_reads_of_the_quota(
    controllers, control_plane, client, namespace, world
):
    if world.plane.server is not control_plane:
        pytest.skip("a cluster's own controllers are not ours to choose")
    await limited(client, namespace, pods="2")
    await world.start("--gangs")
    await client.create(JOBS, job(namespace))

    async def told():
        found = (await client.list(EVENTS, namespace)).items
        return [one for one in found if one["reason"] == "GangCannotComplete"]

    (event, *_) = await until(told)
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["type"] == "Warning"
    assert event["message"] == (
        "ResourceQuota tight allows 2 pods in the namespace, and the gang needs 4"
    )
    assert await world.evaluator.metric("plimsoll_gangs_obstructed") == 1


@pytest.fixture
async def two_of_three(world):
    """A ReplicaSet of two pods that are held for a third; on an API server that may serve no quotas, as the sandbox's."""
    meta = {"name": "train", "namespace": world.namespace}
    held = template()
    held["metadata"]["labels"] |= {"minAvailable": "3"}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "train"}}, "template": held}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
    made = await world.client.create(REPLICASETS, body)
    owner = {key: made[key] for key in ("apiVersion", "kind")} | {"name": "train"}
    owners = [{**owner, "uid": made["metadata"]["uid"], "controller": True}]
    for name in ("a", "b"):
        about = {**held["metadata"], "name": name, "namespace": world.namespace}
        pod = {"metadata": {**about, "ownerReferences": owners}, "spec": held["spec"]}
        await world.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
    yield
    await world.client.delete(REPLICASETS, "train", world.namespace)
    await until(lambda: emptied(world.client, world.namespace))


async def test_too_few_replicas_are_told_on_each_pod(world, two_of_three):
    await world.start("--gangs")

    too_few = (
        "ReplicaSet train makes 2 at once (replicas): no more than 2 of the 3 pods that are needed"
    )

    async def told():
        found = (await world.client.list(EVENTS, world.namespace)).items
        ours = [one for one in found if one["reason"] == "GangCannotComplete"]
        return {one["involvedObject"]["name"]: one["message"] for one in ours}

    async def on_both():
        return await told() == {"a": too_few, "b": too_few}

    try:
        await until(on_both)
    except TimeoutError:
        raise AssertionError(f"{await told()}{world.evaluator.log()}") from None
