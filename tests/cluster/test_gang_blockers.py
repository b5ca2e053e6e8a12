"""The Diagnoser on a real control plane: quotas count gated pods, and controllers wait for them."""

import contextlib
import secrets

import msgspec
import pytest

from evaluator.core.cache.pods import PodCache
from evaluator.core.kube.client import Kube
from evaluator.features.gangs.core.labels import decode
from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import GangDecisions, GangState, GangVerdict
from evaluator.features.gangs.diagnoser import Diagnoser
from sandbox.client.client import ApiError, Client
from sandbox.client.objects import DEPLOYMENTS, EVENTS, NAMESPACES, PODS, REPLICASETS, ObjectKind
from sandbox.envtest import NoControlPlaneError
from tests.evaluator.features.gangs.fed import fed_index
from tests.eventually import eventually

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
QUOTA_OF_PODS = "Job train failed to create a pod: exceeded quota: tight, requested: pods=1, used: pods=2, limited: pods=2"


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
    await eventually(lambda: emptied(client, name))


async def emptied(client, namespace):
    """A separate API server: other tests count its gangs, no component removes pods here, and a Job leaves finalizers."""
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
        await eventually(is_up)
        yield


def container(requests, limits=None, *, name="c", **more):
    resources = {"requests": requests, "limits": limits or {}}
    return {"name": name, "image": "none", "resources": resources, **more}


class Diagnosis:
    """A Diagnoser on the API server, with a clock that the test advances."""

    def __init__(self, kube, client, namespace):
        self._client = client
        self._namespace = namespace
        self._now = 0.0
        self._inventory = PodCache(clock=lambda: self._now, wall=lambda: self._now)
        key = GangKey(namespace, "train")
        verdict = GangVerdict(GangState.INCOMPLETE, "", 0.0)
        index = fed_index(self._inventory)
        self._diagnoser = Diagnoser(
            kube,
            lambda: index.by_key,
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

        await eventually(there)

    async def finds(self, *expected):
        async def told():
            await self.pods()
            await self._diagnoser.run_once()
            self._now += 30.0
            found = self._diagnoser.blockers(GangKey(self._namespace, "train"))
            return found if len(found) == len(expected) else None

        assert await eventually(told) == expected


@pytest.fixture
def diagnosis(kube, client, namespace):
    return Diagnosis(kube, client, namespace)


async def limited(client, namespace, **hard):
    """Create an enforced quota: first one that admits nothing, until it is observed to be enforced."""
    meta = {"name": "tight", "namespace": namespace}
    await client.create(QUOTAS, {"metadata": meta, "spec": {"hard": {"pods": "0"}}})
    await eventually(lambda: lets_in(client, namespace, nothing=True))
    change = {"spec": {"hard": {"pods": None, **hard}}}
    await client.patch(QUOTAS, "tight", change, namespace)

    async def counted():
        status = (await client.get(QUOTAS, "tight", namespace))["status"]
        return status.get("hard") == hard and status.get("used", {}).keys() == hard.keys()

    await eventually(counted)
    await eventually(lambda: lets_in(client, namespace))


async def lets_in(client, namespace, *, nothing=False):
    """Whether a small pod (dry run) would be admitted, or rejected by the quota."""
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


async def test_pod_quota_is_reported_as_by_the_job(controllers, client, namespace, diagnosis):
    await limited(client, namespace, pods="2")
    await client.create(JOBS, job(namespace))
    await diagnosis.has(2)
    await diagnosis.finds(QUOTA_OF_PODS)


async def test_used_up_quota_of_limits_is_reported_as_by_the_job(
    controllers, client, namespace, diagnosis
):
    await limited(client, namespace, **{"limits.cpu": "5"})
    other = {"restartPolicy": "Never", "containers": [container({"cpu": "2"}, {"cpu": "2"})]}
    await client.create(PODS, {"metadata": {"name": "o", "namespace": namespace}, "spec": other})
    await client.create(JOBS, job(namespace))
    await diagnosis.has(4)
    await diagnosis.finds(
        "Job train failed to create a pod: exceeded quota: tight, "
        "requested: limits.cpu=1, used: limits.cpu=5, limited: limits.cpu=5"
    )


async def test_rejection_after_the_first_pods_is_reported(
    controllers, client, namespace, diagnosis
):
    """By a quota created later, which needs limits that the pods do not set."""
    await client.create(JOBS, job(namespace, parallelism=2))
    await diagnosis.has(2)
    await limited(client, namespace, **{"limits.memory": "1Gi"})
    await client.patch(JOBS, "train", {"spec": {"parallelism": 4}}, namespace)
    await diagnosis.finds(
        "Job train failed to create a pod: failed quota: tight: must specify limits.memory for: c"
    )


async def test_ordered_stateful_set_waits_for_its_first_gated_pod(
    controllers, client, namespace, diagnosis
):
    body = replicated(namespace, replicas=4, serviceName="train")
    await client.create(STATEFUL_SETS, body)
    await diagnosis.has(1)
    await diagnosis.finds(
        "StatefulSet train waits for each pod to become ready before it creates the next (podManagementPolicy "
        "OrderedReady), which gated pods never do: recreate it with podManagementPolicy Parallel"
    )


async def test_job_with_too_little_parallelism_is_reported(
    controllers, client, namespace, diagnosis
):
    await client.create(JOBS, job(namespace, parallelism=2))
    await diagnosis.has(2)
    await diagnosis.finds(
        "Job train creates at most 2 pods (parallelism): at most 2 of the 4 required pods can exist"
    )


async def runs(client, namespace, kind, **spec):
    """A controller of this kind with four ready pods without a gang; returns its template with gang labels."""
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

    await eventually(available)
    return held


async def test_deployment_rollout_waits_for_gated_pods(controllers, client, namespace, diagnosis):
    held = await runs(client, namespace, DEPLOYMENTS)
    await client.patch(DEPLOYMENTS, "train", {"spec": {"template": held}}, namespace)
    (name,) = await eventually(lambda: new_sets(client, namespace))
    await diagnosis.finds(
        "Deployment train has replaced 2 of 4 pods and waits for them to become ready, which gated pods never do: "
        "use the strategy Recreate, which replaces all pods at once",
        f"ReplicaSet {name} creates at most 2 pods (replicas): at most 2 of the 4 required pods can exist",
    )
    recreate = {"type": "Recreate", "rollingUpdate": None}
    await client.patch(DEPLOYMENTS, "train", {"spec": {"strategy": recreate}}, namespace)

    async def replaced():
        await let_go(client, namespace)
        return await all_are_held(client, namespace)

    await eventually(replaced)


@pytest.mark.parametrize(
    ("policy", "helps"),
    [
        ("Parallel", "delete the pods of the old template"),
        ("OrderedReady", "recreate it with podManagementPolicy Parallel"),
    ],
)
async def test_stateful_set_rollout_waits_for_gated_pods(
    controllers, client, namespace, diagnosis, policy, helps
):
    spec = {"serviceName": "train", "podManagementPolicy": policy}
    held = await runs(client, namespace, STATEFUL_SETS, **spec)
    await client.patch(STATEFUL_SETS, "train", {"spec": {"template": held}}, namespace)

    async def one_goes():
        await let_go(client, namespace)
        found = await client.get(STATEFUL_SETS, "train", namespace)
        return found["status"].get("updatedReplicas") == 1

    await eventually(one_goes)
    await diagnosis.finds(
        "StatefulSet train has replaced 1 of 4 pods and waits for them to become ready, which gated pods never do: "
        f"{helps}"
    )
    if policy == "Parallel":
        for pod in (await client.list(PODS, namespace)).items:
            if not pod["spec"].get("schedulingGates"):
                await client.delete(PODS, pod["metadata"]["name"], namespace, grace=0)
        await eventually(lambda: all_are_held(client, namespace))


async def let_go(client, namespace):
    """Delete a terminating pod as a kubelet does."""
    for pod in (await client.list(PODS, namespace)).items:
        if pod["metadata"].get("deletionTimestamp"):
            with contextlib.suppress(ApiError):  # its controller deletes it too if it has no node
                await client.delete(PODS, pod["metadata"]["name"], namespace, grace=0)


async def all_are_held(client, namespace):
    found = (await client.list(PODS, namespace)).items
    return [pod for pod in found if pod["spec"].get("schedulingGates") == GATES][3:]


async def new_sets(client, namespace):
    """Gated pods of the template."""
    found = (await client.list(REPLICASETS, namespace)).items
    return [
        one["metadata"]["name"]
        for one in found
        if one["spec"]["template"]["spec"].get("schedulingGates") and one["spec"]["replicas"] == 2
    ]


@pytest.mark.parametrize("plane", ["real"], indirect=True)
async def test_event_on_a_pod_names_the_quota(controllers, control_plane, client, namespace, world):
    if world.plane.server is not control_plane:
        pytest.skip("a cluster's own controllers are not ours to choose")
    await limited(client, namespace, pods="2")
    await world.start("--gangs")
    await client.create(JOBS, job(namespace))

    async def told():
        found = (await client.list(EVENTS, namespace)).items
        return [one for one in found if one["reason"] == "GangCannotComplete"]

    (event, *_) = await eventually(told)
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["type"] == "Warning"
    assert event["message"] == QUOTA_OF_PODS
    assert await world.evaluator.metric("plimsoll_gangs_obstructed") == 1


@pytest.fixture
async def two_of_three(world):
    """A ReplicaSet of two gated pods of a gang of three."""
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
    await eventually(lambda: emptied(world.client, world.namespace))


async def test_too_few_replicas_are_reported_on_each_pod(world, two_of_three):
    await world.start("--gangs")

    too_few = "ReplicaSet train creates at most 2 pods (replicas): at most 2 of the 3 required pods can exist"

    async def told():
        found = (await world.client.list(EVENTS, world.namespace)).items
        ours = [one for one in found if one["reason"] == "GangCannotComplete"]
        return {one["involvedObject"]["name"]: one["message"] for one in ours}

    async def on_both():
        return await told() == {"a": too_few, "b": too_few}

    try:
        await eventually(on_both)
    except TimeoutError:
        raise AssertionError(f"{await told()}{world.evaluator.log()}") from None
