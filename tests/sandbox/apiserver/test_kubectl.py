"""The real kubectl as client, with validation enabled."""

import asyncio
import json

import pytest

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-a", "labels": {"kubernetes.io/hostname": "node-a"}},
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "nodeInfo": {"kubeletVersion": "v1.32.0", "osImage": "sandbox"},
    },
}
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
async def nodes(api):
    assert (await api.post("/api/v1/nodes", NODE)).code == 201


def table(text):
    return [line.split() for line in text.splitlines()]


async def test_get_works_in_every_format(kubectl, nodes):
    assert (await kubectl("get", "nodes", "-o", "name")).strip() == "node/node-a"
    header, row = table(await kubectl("get", "nodes"))
    assert header == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert (row[0], row[1], row[4]) == ("node-a", "Ready", "v1.32.0")
    wide = await kubectl("get", "nodes", "-o", "wide")
    assert "INTERNAL-IP" in wide
    assert "10.0.0.1" in wide
    found = json.loads(await kubectl("get", "node", "node-a", "-o", "json"))
    assert found["status"]["capacity"]["cpu"] == "4"
    assert "kind: Node" in await kubectl("get", "node", "node-a", "-o", "yaml")


async def test_selectors_work(kubectl, nodes):
    match = await kubectl("get", "nodes", "-l", "kubernetes.io/hostname in (node-a)", "-o", "name")
    assert match.strip() == "node/node-a"
    assert not (await kubectl("get", "nodes", "-l", "zone=x", "-o", "name")).strip()
    fields = await kubectl("get", "nodes", "--field-selector", "metadata.name=node-b", "-o", "name")
    assert not fields.strip()


async def test_label_annotate_taint_and_cordon_work(kubectl, nodes, api):
    await kubectl("label", "node", "node-a", "a=b")
    assert "already has a value" in await kubectl("label", "node", "node-a", "a=c", fails=True)
    await kubectl("label", "node", "node-a", "a=c", "--overwrite")
    await kubectl("annotate", "node", "node-a", "why=because")
    await kubectl("taint", "node", "node-a", "k=v:NoSchedule")
    await kubectl("cordon", "node-a")
    body = (await api.get("/api/v1/nodes/node-a")).body
    assert body["metadata"]["labels"]["a"] == "c"
    assert body["metadata"]["annotations"] == {"why": "because"}
    taints = {(taint["key"], taint.get("value")) for taint in body["spec"]["taints"]}
    assert ("k", "v") in taints
    await kubectl("label", "node", "node-a", "a-")
    assert "a" not in (await api.get("/api/v1/nodes/node-a")).body["metadata"]["labels"]
    managers = {entry["manager"] for entry in body["metadata"]["managedFields"]}
    assert {"kubectl-label", "kubectl-annotate", "kubectl-taint"} <= managers


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", {"metadata": {"labels": {"x": "y"}}}),
        ("strategic", {"metadata": {"labels": {"x": "y"}}}),
        ("json", [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
    ],
)
async def test_patch_works(kubectl, nodes, api, kind, patch):
    await kubectl("patch", "node", "node-a", "--type", kind, "-p", json.dumps(patch))
    assert (await api.get("/api/v1/nodes/node-a")).body["metadata"]["labels"]["x"] == "y"


async def test_rejected_write_has_a_reason(kubectl, nodes):
    said = await kubectl(
        "patch", "node", "node-a", "-p", '{"metadata":{"labels":{"a":"b c"}}}', fails=True
    )
    assert 'The Node "node-a" is invalid: metadata.labels' in said


@pytest.mark.parametrize("way", [[], ["--server-side"]])
async def test_apply_works(kubectl, deployment, api, way):
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    body = deployment(replicas=2)
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    body["spec"]["template"]["spec"]["containers"][0]["env"] = env
    await kubectl("apply", *way, "-f", "-", stdin=body)
    first = await api.get(path)
    await kubectl("apply", *way, "-f", "-", stdin=body)
    assert (await api.get(path)).version == first.version
    body["spec"]["replicas"] = 3
    body["spec"]["template"]["spec"]["containers"][0]["env"] = env[1:]
    assert "replicas: 3" in await kubectl("diff", *way, "-f", "-", stdin=body, fails=None)
    await kubectl("apply", *way, "-f", "-", stdin=body)
    spec = (await api.get(path)).body["spec"]
    assert spec["replicas"] == 3
    assert spec["template"]["spec"]["containers"][0]["env"] == env[1:]


async def test_apply_moves_from_client_to_server_side(kubectl, deployment, api):
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    await kubectl("apply", "-f", "-", stdin=deployment(replicas=2))
    await kubectl("apply", "--server-side", "-f", "-", stdin=deployment(replicas=4))
    assert (await api.get(path)).body["spec"]["replicas"] == 4


async def test_conflict_is_explained(kubectl, nodes):
    config = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-a", "labels": {"kubernetes.io/hostname": "other"}},
    }
    said = await kubectl("apply", "--server-side", "-f", "-", stdin=config, fails=True)
    assert 'conflict with "tester" using v1: .metadata.labels.kubernetes.io/hostname' in said
    await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=config)


@pytest.mark.parametrize(
    ("args", "kind", "field", "expected"),
    [
        (["ns", "x"], "ns", "{.status.phase}", "Active"),
        (["deployment", "x", "--image=a:1", "--replicas=3", "--port=80"], "deploy", "{.spec.replicas}", "3"),
        (["deployment", "x", "--image=a", "--replicas=0"], "deploy", "{.spec.replicas}", "0"),
        (["deployment", "x", "--image=a", "--", "sleep", "1"], "deploy", "{..command}", '["sleep","1"]'),
        (["configmap", "x", "--from-literal=a=b"], "cm", "{.data.a}", "b"),
        (["secret", "generic", "x", "--from-literal=a=b"], "secret", "{.data.a}", "Yg=="),
        (["serviceaccount", "x"], "sa", "{.metadata.name}", "x"),
        (["pdb", "x", "--selector=a=b", "--min-available=50%"], "pdb", "{.spec.minAvailable}", "50%"),
        (["pdb", "x", "--selector=a=b", "--max-unavailable=0"], "pdb", "{.spec.maxUnavailable}", "0"),
        (["priorityclass", "x", "--value=-5"], "pc", "{.value}", "-5"),
        (["service", "clusterip", "x", "--tcp=80:8080"], "svc", "{.spec.ports[0].targetPort}", "8080"),
    ],
)  # fmt: skip
async def test_create_works(kubectl, args, kind, field, expected):
    await kubectl("create", *args)
    assert await kubectl("get", kind, "x", "-o", f"jsonpath={field}") == expected


async def test_create_run_scale_and_delete_work(kubectl):
    await kubectl("create", "deployment", "web", "--image=nginx")
    await kubectl("scale", "deployment", "web", "--replicas=7")
    shown = await kubectl("get", "deployment", "web", "-o", "wide")
    assert table(shown)[1][:2] == ["web", "0/7"]
    await kubectl("run", "alone", "--image=nginx")
    await kubectl("delete", "pod", "alone")
    await kubectl("delete", "deployment", "web")
    assert "NotFound" in await kubectl("get", "deployment", "web", fails=True)


async def test_server_dry_run_stores_nothing(kubectl):
    await kubectl("create", "ns", "x", "--dry-run=server")
    assert "NotFound" in await kubectl("get", "ns", "x", fails=True)


async def test_describe_shows_a_node(kubectl, nodes, api, pod):
    spec = {
        "nodeName": "node-a",
        "containers": [
            {
                "name": "c",
                "image": "a",
                "resources": {"limits": {"telemetry/scheduling": 1, "cpu": "1"}},
            }
        ],
    }
    await api.post("/api/v1/namespaces/default/pods", pod(spec=spec))
    lease = {"metadata": {"name": "node-a"}, "spec": {"holderIdentity": "node-a"}}
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    await api.post(path, lease)
    said = await kubectl("describe", "node", "node-a")
    assert "HolderIdentity:  node-a" in said
    assert "Non-terminated Pods:          (1 in total)" in said
    assert "KubeletReady" in said


async def test_describe_pod_shows_its_events(kubectl, api, pod):
    created = (await api.post("/api/v1/namespaces/default/pods", pod())).body
    event = {
        "metadata": {"name": "web.1"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "web",
            "uid": created["metadata"]["uid"],
        },
        "reason": "FailedScheduling",
        "message": "0/3 nodes are available",
        "type": "Warning",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "lastTimestamp": "2023-11-14T22:13:20Z",
        "count": 1,
    }
    await api.post("/api/v1/namespaces/default/events", event)
    said = await kubectl("describe", "pod", "web")
    assert "FailedScheduling" in said
    assert "0/3 nodes are available" in said
    assert "pod/web" in await kubectl("get", "events")
    assert "FailedScheduling" in await kubectl("events", "--for", "pod/web")


@pytest.mark.parametrize("kind", ["deployment", "namespace", "configmap", "crd", "widget"])
async def test_describe_shows_any_kind(kubectl, api, crd, deployment, kind):
    await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(ANY))
    await api.post("/apis/apps/v1/namespaces/default/deployments", deployment("x"))
    await api.post("/apis/example.com/v1/namespaces/default/widgets", {"metadata": {"name": "x"}})
    await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}})
    name = {"namespace": "default", "crd": "widgets.example.com"}.get(kind, "x")
    assert name in await kubectl("describe", kind, name)


async def test_custom_resources_work(kubectl, crd):
    schema = {
        "type": "object",
        "properties": {"size": {"type": "integer", "minimum": 1}, "ready": {"type": "boolean"}},
    }
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    await kubectl("apply", "-f", "-", stdin=crd(schema, additionalPrinterColumns=columns))
    await kubectl("wait", "--for=condition=Established", "crd/widgets.example.com")
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 3},
    }
    await kubectl("apply", "-f", "-", stdin=widget)
    header, row = table(await kubectl("get", "widgets"))
    assert (header, row[:2]) == (["NAME", "SIZE", "AGE"], ["w", "3"])
    widget["spec"] = {"size": 0}
    assert "greater than or equal to 1" in await kubectl(
        "apply", "-f", "-", stdin=widget, fails=True
    )
    widget["spec"] = {"colour": "red"}
    said = await kubectl("apply", "-f", "-", stdin=widget, fails=True)
    assert 'strict decoding error: unknown field "spec.colour"' in said
    await kubectl("delete", "crd", "widgets.example.com")
    assert "could not find the requested resource" in await kubectl("get", "widgets", fails=True)


async def test_watch_works(kubectl, nodes, api, server):
    async def relabel():
        # The watch is established once its first line is printed; several changes avoid a race.
        for index in range(200):
            await api.patch("/api/v1/nodes/node-a", {"metadata": {"labels": {"i": str(index)}}})
            await asyncio.sleep(0.02)

    changing = asyncio.create_task(relabel())
    try:
        seen = await kubectl("get", "nodes", "-w", "--request-timeout=2s", "-L", "i")
    finally:
        changing.cancel()
    assert len({line.split()[-1] for line in seen.splitlines()[1:]}) > 2


async def test_pod_is_waited_for_and_drained(kubectl, nodes, api, pod):
    await api.post("/api/v1/namespaces/default/pods", pod())
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "node-a"}}
    await api.post("/api/v1/namespaces/default/pods/web/binding", binding)
    await kubectl("wait", "--for=condition=PodScheduled", "pod/web")
    shown = table(await kubectl("get", "pods", "-o", "wide"))
    assert shown[1][6] == "node-a"
    await kubectl("drain", "node-a", "--force", "--grace-period=0", "--timeout=20s")
    assert (await api.get("/api/v1/namespaces/default/pods/web")).code == 404


async def test_namespace_is_deleted_with_its_content(kubectl):
    manifest = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "team"},
            },
        ],
    }
    await kubectl("apply", "-f", "-", stdin=manifest)
    await kubectl("delete", "-f", "-", stdin=manifest)
    assert "NotFound" in await kubectl("get", "ns", "team", fails=True)


async def test_raw_and_api_resources_work(kubectl):
    version = json.loads(await kubectl("get", "--raw", "/version"))
    assert version["minor"] == "32"
    names = await kubectl("api-resources", "-o", "name")
    assert {"nodes", "deployments.apps", "leases.coordination.k8s.io"} <= set(names.split())
    assert "Server Version" in await kubectl("version")
    assert "policy/v1" in await kubectl("api-versions")


async def test_rollout_status_works(kubectl, deployment, api):
    path = "/apis/apps/v1/namespaces/default/deployments"
    await api.post(path, deployment(replicas=1))
    status = {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "availableReplicas": 1,
        "readyReplicas": 1,
    }
    await api.patch(f"{path}/web/status", {"status": status})
    assert "successfully rolled out" in await kubectl("rollout", "status", "deploy/web")
    await kubectl("rollout", "restart", "deploy/web")
    template = (await api.get(f"{path}/web")).body["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


async def test_replace_edit_and_set_image_work(kubectl, deployment, api):
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    await kubectl("create", "-f", "-", stdin=deployment())
    await kubectl("set", "image", "deploy/web", "c=nginx:9")
    body = (await api.get(path)).body
    assert body["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:9"
    await kubectl("replace", "-f", "-", stdin=deployment(replicas=5))
    assert (await api.get(path)).body["spec"]["replicas"] == 5
