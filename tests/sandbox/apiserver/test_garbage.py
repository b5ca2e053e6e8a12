"""Garbage collection by owner and namespace."""

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICASETS = "/apis/apps/v1/namespaces/default/replicasets"


def owned_by(owner, kind):
    return [
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]


async def family(api, deployment, pod):
    """A deployment, its replica set and its pod."""
    top = (await api.post(DEPLOYMENTS, deployment())).body
    middle = {"metadata": {"name": "web-1"}, "spec": dict(deployment()["spec"])}
    middle["metadata"]["ownerReferences"] = owned_by(top, "Deployment")
    replicas = (await api.post(REPLICASETS, middle)).body
    reply = await api.post(PODS, pod("web-1-a", ownerReferences=owned_by(replicas, "ReplicaSet")))
    assert reply.code == 201


async def test_deployment_deletion_includes_its_replica_set_and_pods(api, deployment, pod):
    await family(api, deployment, pod)
    await api.delete(f"{DEPLOYMENTS}/web")
    assert (await api.get(f"{REPLICASETS}/web-1")).code == 404
    assert (await api.get(f"{PODS}/web-1-a")).code == 404


async def test_orphaning_keeps_the_dependents(api, deployment, pod):
    await family(api, deployment, pod)
    await api.delete(f"{DEPLOYMENTS}/web", {"propagationPolicy": "Orphan"})
    replicas = await api.get(f"{REPLICASETS}/web-1")
    assert replicas.body["metadata"]["ownerReferences"] == []
    assert (await api.get(f"{PODS}/web-1-a")).code == 200


async def test_bound_pod_of_a_deleted_owner_keeps_its_grace_period(api, deployment, pod):
    await family(api, deployment, pod)
    binding = {"metadata": {"name": "web-1-a"}, "target": {"kind": "Node", "name": "n"}}
    await api.post(f"{PODS}/web-1-a/binding", binding)
    await api.delete(f"{DEPLOYMENTS}/web")
    body = (await api.get(f"{PODS}/web-1-a")).body
    assert body["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_object_with_one_remaining_owner_stays(api, deployment, pod):
    one = (await api.post(DEPLOYMENTS, deployment("one"))).body
    two = (await api.post(DEPLOYMENTS, deployment("two"))).body
    owners = [*owned_by(one, "Deployment"), *owned_by(two, "Deployment")]
    owners[1].pop("controller")
    await api.post(PODS, pod(ownerReferences=owners))
    await api.delete(f"{DEPLOYMENTS}/one")
    assert (await api.get(f"{PODS}/web")).code == 200
    await api.delete(f"{DEPLOYMENTS}/two")
    assert (await api.get(f"{PODS}/web")).code == 404


async def test_child_created_after_its_owner_was_deleted_is_deleted(api, deployment, pod):
    owner = (await api.post(DEPLOYMENTS, deployment())).body
    await api.delete(f"{DEPLOYMENTS}/web")
    created = await api.post(PODS, pod(ownerReferences=owned_by(owner, "Deployment")))
    assert created.code == 201
    assert (await api.get(f"{PODS}/web")).code == 404


async def test_namespace_deletion_includes_its_content(api, pod):
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    path = "/api/v1/namespaces/team"
    await api.post(f"{path}/pods", pod())
    await api.post(f"{path}/configmaps", {"metadata": {"name": "c"}})
    version = (await api.get(path)).version
    async with api.watch("/api/v1/namespaces", resourceVersion=version) as watch:
        await api.delete(path)
        # The content can still be deleted one by one, as `kubectl delete -f` does.
        assert (await api.delete(f"{path}/configmaps/c")).code == 200
        assert [event["type"] for event in await watch.events(2)] == ["MODIFIED", "DELETED"]
    assert (await api.get(path)).code == 404
    assert (await api.get("/api/v1/configmaps")).body["items"] == []
    assert (await api.get("/api/v1/pods")).body["items"] == []


async def test_namespace_waits_for_running_pods(api, pod):
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    path = "/api/v1/namespaces/team"
    await api.post(f"{path}/pods", pod(spec={"nodeName": "n"}))
    version = (await api.get(f"{path}/pods")).version
    await api.delete(path)
    async with api.watch(f"{path}/pods", resourceVersion=version) as watch:
        marked = await watch.next()
    assert marked["object"]["metadata"]["deletionTimestamp"]
    assert (await api.get(path)).body["status"]["phase"] == "Terminating"
    refused = await api.post(f"{path}/configmaps", {"metadata": {"name": "c"}})
    assert (refused.code, refused.reason) == (403, "Forbidden")
    await api.delete(f"{path}/pods/web", {"gracePeriodSeconds": 0})
    assert (await api.get(path)).code == 404
