"""Pods: defaults, mutable fields, binding and deletion."""

import pytest

PODS = "/api/v1/namespaces/default/pods"
POD = f"{PODS}/web"


def binding(node="node-a", **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def containers(**resources):
    return {"containers": [{"name": "c", "image": "nginx:1", "resources": resources}]}


async def test_defaults_are_set(api, pod):
    body = (await api.post(PODS, pod())).body
    spec = body["spec"]
    assert body["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert spec["restartPolicy"] == "Always"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"


async def test_status_sent_at_creation_is_dropped(api, pod):
    made_up = {**pod(), "status": {"phase": "Running"}}
    assert (await api.post(PODS, made_up)).body["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({"limits": {"telemetry/scheduling": 1}}, {"telemetry/scheduling": "1"}),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, {"cpu": "1"}),
        (
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
            {"cpu": "1", "memory": "1Gi"},
        ),
    ],
)
async def test_limit_without_a_request_is_the_request(api, pod, resources, requests):
    body = (await api.post(PODS, pod(spec=containers(**resources)))).body
    assert body["spec"]["containers"][0]["resources"]["requests"] == requests


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"limits": {"telemetry/scheduling": 1}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
async def test_qos_class_is_set(api, pod, resources, expected):
    body = (await api.post(PODS, pod(spec=containers(**resources)))).body
    assert body["status"]["qosClass"] == expected


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image"),
        ({"nodeName": "n", "schedulingGates": [{"name": "a"}]}, "spec.nodeName"),
    ],
)
async def test_invalid_specs_are_rejected(api, pod, spec, field):
    reply = await api.post(PODS, pod(spec=spec))
    assert (reply.code, reply.causes[0]["field"]) == (422, field)


async def test_binding_sets_the_node(api, pod):
    created = (await api.post(PODS, pod())).body
    reply = await api.post(
        f"{POD}/binding",
        binding(uid=created["metadata"]["uid"], annotations={"a": "b"}),
    )
    assert (reply.code, reply.body["status"]) == (201, "Success")
    bound = (await api.get(POD)).body
    assert bound["spec"]["nodeName"] == "node-a"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    [scheduled] = bound["status"]["conditions"]
    assert (scheduled["type"], scheduled["status"]) == ("PodScheduled", "True")


@pytest.mark.parametrize(
    ("spec", "asked", "why"),
    [
        ({"nodeName": "n"}, binding(), 'already assigned to node "n"'),
        ({"schedulingGates": [{"name": "g"}]}, binding(), "non-empty .spec.schedulingGates"),
        ({}, binding(uid="other"), "Precondition failed: UID"),
    ],
)
async def test_invalid_binding_is_rejected(api, pod, spec, asked, why):
    before = await api.post(PODS, pod(spec=spec))
    reply = await api.post(f"{POD}/binding", asked)
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert why in reply.body["message"]
    assert reply.body["details"]["kind"] == "pods/binding"
    assert (await api.get(POD)).version == before.version


async def test_terminating_pod_cannot_be_bound(api, pod):
    await api.post(PODS, pod(finalizers=["example.com/x"]))
    await api.delete(POD)
    reply = await api.post(f"{POD}/binding", binding())
    assert reply.code == 409
    assert "is being deleted" in reply.body["message"]


async def test_binding_of_a_missing_pod_or_node_is_rejected(api, pod):
    assert (await api.post(f"{POD}/binding", binding())).code == 404
    await api.post(PODS, pod())
    assert (await api.post(f"{POD}/binding", binding(""))).code == 400
    other = binding() | {"metadata": {"name": "other"}}
    assert (await api.post(f"{POD}/binding", other)).code == 400
    assert (await api.get(f"{POD}/binding")).code == 405


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "c", "image": "nginx:2"}]},
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
        {"activeDeadlineSeconds": 5},
    ],
)
async def test_mutable_fields_may_change(api, pod, change):
    await api.post(PODS, pod())
    kind = "application/strategic-merge-patch+json"
    assert (await api.patch(POD, {"spec": change}, kind)).code == 200


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nodeName": "n"}, "spec"),
        ({"nodeSelector": {"a": "b"}}, "spec"),
        ({"schedulerName": "other"}, "spec"),
        ({"schedulingGates": [{"name": "late"}]}, "spec.schedulingGates[0].name"),
        ({"tolerations": []}, "spec.tolerations"),
    ],
)
async def test_immutable_fields_may_not_change(api, pod, change, field):
    await api.post(PODS, pod(spec={"tolerations": [{"key": "k", "operator": "Exists"}]}))
    reply = await api.patch(POD, {"spec": change})
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert field in [cause["field"] for cause in reply.causes]


async def test_unbound_pod_is_deleted_at_once(api, pod):
    await api.post(PODS, pod())
    reply = await api.delete(POD)
    assert (reply.code, reply.body["kind"]) == (200, "Pod")
    assert (await api.get(POD)).code == 404


async def test_bound_pod_waits_for_its_kubelet(api, pod, clock):
    await api.post(PODS, pod(spec={"nodeName": "n"}))
    marked = (await api.delete(POD)).body["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30
    assert marked["deletionTimestamp"] == "2023-11-14T22:13:50Z"
    again = (await api.delete(POD)).body["metadata"]
    assert again["resourceVersion"] == marked["resourceVersion"]
    shortened = await api.delete(POD, {"gracePeriodSeconds": 5})
    assert shortened.body["metadata"]["deletionGracePeriodSeconds"] == 5
    assert (await api.patch(f"{POD}/status", {"status": {"phase": "Running"}})).code == 200
    await api.delete(POD, {"gracePeriodSeconds": 0})
    assert (await api.get(POD)).code == 404


async def test_finished_pod_is_deleted_at_once(api, pod):
    await api.post(PODS, pod(spec={"nodeName": "n"}))
    await api.patch(f"{POD}/status", {"status": {"phase": "Succeeded"}})
    await api.delete(POD)
    assert (await api.get(POD)).code == 404


async def test_kubelet_status_keeps_conditions_of_others(api, pod):
    await api.post(PODS, pod())
    await api.post(f"{POD}/binding", binding())
    kind = "application/strategic-merge-patch+json"
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    body = (await api.patch(f"{POD}/status", ready, kind)).body
    found = {item["type"]: item["status"] for item in body["status"]["conditions"]}
    assert found == {"PodScheduled": "True", "Ready": "True"}
