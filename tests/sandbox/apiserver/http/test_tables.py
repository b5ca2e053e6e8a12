"""Table columns that kubectl prints for each kind."""

import pytest

from sandbox.apiserver.http.tables import human_duration

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PODS = "/api/v1/namespaces/default/pods"


async def rows(api, path, **query):
    """Column name -> cell, per row."""
    reply = await api.call("GET", path, headers={"Accept": TABLE}, **query)
    assert reply.body["kind"] == "Table", reply.body
    names = [column["name"] for column in reply.body["columnDefinitions"]]
    return [dict(zip(names, row["cells"], strict=True)) for row in reply.body["rows"]]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (7 * 3600 + 1800, "7h30m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400, "8d"),
    ],
)
def test_ages_are_formatted(seconds, expected):
    assert human_duration(seconds) == expected


async def test_node_columns_are_shown(api, node, clock):
    await api.post("/api/v1/nodes", node(labels={"node-role.kubernetes.io/worker": ""}))
    clock.now += 200
    status = {
        "conditions": [{"type": "Ready", "status": "False"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1", "osImage": "os", "kernelVersion": "6"},
    }
    await api.patch("/api/v1/nodes/node-a/status", {"status": status})
    await api.patch("/api/v1/nodes/node-a", {"spec": {"unschedulable": True}})
    [row] = await rows(api, "/api/v1/nodes")
    assert row == {
        "Name": "node-a",
        "Status": "NotReady,SchedulingDisabled",
        "Roles": "worker",
        "Age": "3m20s",
        "Version": "v1",
        "Internal-IP": "10.0.0.1",
        "External-IP": "<none>",
        "OS-Image": "os",
        "Kernel-Version": "6",
        "Container-Runtime": "<unknown>",
    }


async def test_pod_columns_follow_its_life_cycle(api, pod, clock):
    await api.post(PODS, pod(spec={"schedulingGates": [{"name": "g"}]}))

    async def shown():
        [row] = await rows(api, PODS)
        return row["Ready"], row["Status"], row["Restarts"], row["Node"]

    async def report(**status):
        assert (await api.patch(f"{PODS}/web/status", {"status": status})).code == 200

    assert await shown() == ("0/1", "SchedulingGated", "0", "<none>")
    await api.patch(f"{PODS}/web", {"spec": {"schedulingGates": None}})
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}}
    await api.post(f"{PODS}/web/binding", binding)
    assert await shown() == ("0/1", "Pending", "0", "n")
    waiting = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
    await report(containerStatuses=[waiting])
    assert await shown() == ("0/1", "ContainerCreating", "0", "n")
    running = {
        "name": "c",
        "ready": True,
        "restartCount": 2,
        "state": {"running": {}},
        "lastState": {"terminated": {"finishedAt": "2023-11-14T22:13:00Z"}},
    }
    await report(phase="Running", containerStatuses=[running])
    assert await shown() == ("1/1", "Running", "2 (20s ago)", "n")
    ended = {"name": "c", "state": {"terminated": {"exitCode": 3}}}
    await report(phase="Failed", containerStatuses=[ended])
    assert await shown() == ("0/1", "ExitCode:3", "0", "n")
    await report(phase="Running")
    await api.delete(f"{PODS}/web")
    assert (await shown())[1] == "Terminating"


async def test_deployment_columns_are_shown(api, deployment):
    path = "/apis/apps/v1/namespaces/default/deployments"
    await api.post(path, deployment(replicas=3))
    status = {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}
    await api.patch(f"{path}/web/status", {"status": status})
    [row] = await rows(api, path)
    assert {
        key: row[key] for key in ("Ready", "Up-to-date", "Available", "Images", "Selector")
    } == {
        "Ready": "1/3",
        "Up-to-date": 2,
        "Available": 1,
        "Images": "nginx:1",
        "Selector": "app=web",
    }


async def test_event_columns_are_shown(api):
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "web"},
        "reason": "Refused",
        "type": "Warning",
        "message": "no\n",
        "count": 3,
        "firstTimestamp": "2023-11-14T22:03:20Z",
        "lastTimestamp": "2023-11-14T22:13:15Z",
        "source": {"component": "plimsoll", "host": "h"},
    }
    await api.post("/api/v1/namespaces/default/events", event)
    [row] = await rows(api, "/api/v1/events")
    assert row["Last Seen"] == "5s (x3 over 10m)"
    assert (row["Object"], row["Message"], row["Source"]) == ("pod/web", "no", "plimsoll, h")


async def test_printer_columns_of_a_crd_are_shown(api, crd):
    columns = [
        {"name": "Ready", "type": "string", "jsonPath": ".status.ready"},
        {"name": "Rules", "type": "integer", "jsonPath": ".spec.rules", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.post(path, crd(schema, additionalPrinterColumns=columns))
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    await api.post(widgets, {"metadata": {"name": "w"}, "spec": {"rules": 4}})
    await api.patch(f"{widgets}/w/status", {"status": {"ready": True}})
    assert await rows(api, widgets) == [{"Name": "w", "Ready": "true", "Rules": 4, "Age": "0s"}]


async def test_row_includes_as_much_of_its_object_as_requested(api, node):
    await api.post("/api/v1/nodes", node())
    shown = {}
    for include in ("None", "Metadata", "Object"):
        reply = await api.call(
            "GET", "/api/v1/nodes", headers={"Accept": TABLE}, includeObject=include
        )
        shown[include] = reply.body["rows"][0].get("object", {}).get("kind")
    assert shown == {"None": None, "Metadata": "PartialObjectMetadata", "Object": "Node"}


async def test_kind_without_columns_shows_name_and_age(api, crd):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.post(path, crd(schema))
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    await api.post(widgets, {"metadata": {"name": "w"}})
    assert await rows(api, widgets) == [{"Name": "w", "Age": "0s"}]
