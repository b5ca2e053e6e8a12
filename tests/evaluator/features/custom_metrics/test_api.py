"""Responses of the custom metrics API: lists of nodes and pods, discovery, errors, readiness."""

import json

import pytest

APIS = "/apis"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
def three(world):
    """Three nodes; node-c has not reported."""
    made = world("health_metric", "load")
    for name, zone in (("node-a", "1"), ("node-b", "2"), ("node-c", "1")):
        made.node(name, zone=zone)
    made.report("node-a", health_metric=0.0, load=1.5)
    made.report("node-b", health_metric=2.0, load=0.25)
    return made


async def test_list_of_all_nodes_has_the_wire_format_of_v1beta2(three):
    response, body = await three.get("v1beta2/nodes/*/load")
    assert response.content_type == "application/json"
    assert json.loads(body) == {
        "kind": "MetricValueList",
        "apiVersion": "custom.metrics.k8s.io/v1beta2",
        "metadata": {},
        "items": [
            {
                "describedObject": {"kind": "Node", "name": name, "apiVersion": "/v1"},
                "metric": {"name": "load", "selector": None},
                "timestamp": "2023-11-14T22:30:00Z",
                "value": value,
            }
            for name, value in (("node-a", "1500m"), ("node-b", "250m"))
        ],
    }


async def test_item_of_v1beta1_has_a_metric_name(three):
    _, body = await three.get("v1beta1/nodes/node-a/load")
    (item,) = json.loads(body)["items"]
    assert (item["metricName"], item["selector"], item["value"]) == ("load", None, "1500m")
    assert "metric" not in item


@pytest.mark.parametrize(
    "path",
    [
        "v1beta2/nodes/node-a/load",
        "v1beta2/nodes./node-a/load",
        "v1beta2/nodes/node%2Da/load",
        "v1beta2/namespaces/default/nodes/node-a/load",
    ],
)
async def test_one_node_is_exactly_one_item_with_and_without_namespace(three, path):
    assert await three.items(path) == {"node-a": "1500m"}


async def test_label_selector_selects_nodes(three):
    assert await three.items("v1beta2/nodes/*/load", labelSelector="zone=1") == {"node-a": "1500m"}
    assert await three.items("v1beta2/nodes/%2A/load", labelSelector="zone in (1,2)") == {
        "node-a": "1500m",
        "node-b": "250m",
    }


async def test_pods_have_the_reading_of_their_node(three):
    three.pod("web-1", "node-a", app="web")
    three.pod("web-2", "node-b", app="web")
    three.pod("web-3", "node-c", app="web")
    three.pod("web-4", "", phase="Pending", app="web")
    three.pod("job-1", "node-a", app="job")
    three.pod("done", "node-a", phase="Succeeded", app="web")
    three.pod("web-1", "node-b", namespace="other", app="web")
    pods = "v1beta2/namespaces/default/pods"
    assert await three.items(f"{pods}/*/load", labelSelector="app=web") == {
        "web-1": "1500m",
        "web-2": "250m",
    }
    assert await three.items(f"{pods}/job-1/load") == {"job-1": "1500m"}
    _, body = await three.get(f"{pods}/web-1/load")
    assert json.loads(body)["items"][0]["describedObject"] == {
        "kind": "Pod",
        "namespace": "default",
        "name": "web-1",
        "apiVersion": "/v1",
    }


async def test_pod_on_an_unknown_node_has_no_reading(world):
    made = world("load")
    made.pod("web-1", "node-z", app="web")
    pods = "v1beta2/namespaces/default/pods"
    assert (await made.refused(f"{pods}/web-1/load"))[2].endswith(": node node-z is not known")
    assert (await made.refused(f"{pods}/*/load"))[0] == 404


async def test_stale_readings_are_absent(three):
    three.now += 20
    three.report("node-b", load=0.25)
    three.now += 20
    assert await three.items("v1beta2/nodes/*/load") == {"node-b": "250m"}
    assert await three.refused("v1beta2/nodes/node-a/load") == (
        404,
        "NotFound",
        "the server could not find the metric load for nodes node-a: its reading is stale, 40 s old",
    )


async def test_timestamp_is_that_of_the_measurement(three):
    three.now += 20.9
    _, body = await three.get("v1beta2/nodes/node-a/load")
    assert json.loads(body)["items"][0]["timestamp"] == "2023-11-14T22:30:00Z"


async def test_values_that_are_not_finite_are_left_out_and_counted(three):
    three.report("node-a", load=float("nan"))
    three.report("node-b", load=float("inf"))
    three.report("node-c", load=1.0)
    assert await three.items("v1beta2/nodes/*/load") == {"node-c": "1"}
    assert three.count("plimsoll_custom_metrics_left_out_values_total") == 2
    assert (await three.refused("v1beta2/nodes/node-b/load"))[2].endswith("its value is +Inf")
    assert three.count("plimsoll_custom_metrics_left_out_values_total") == 3


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nodes/*/unknown", "unknown for nodes: no policy names it, nor does --serveMetrics"),
        ("nodes/node-z/load", "load for nodes node-z: there is no such object"),
        ("nodes/node-c/load", "load for nodes node-c: the node has not reported it"),
        ("namespaces/default/pods/*/load", "load for pods: no object matches"),
        ("pods/*/load", "load for pods: only nodes, and pods of a namespace, have metrics here"),
        (
            "namespaces/default/metrics/load",
            "load for namespaces default: only nodes, and pods of a namespace, have metrics here",
        ),
        (
            "namespaces/default/deployments.apps/web/load",
            "load for deployments.apps web: only nodes, and pods of a namespace, have metrics here",
        ),
    ],
)
async def test_absent_metrics_are_not_found(three, path, why):
    message = f"the server could not find the metric {why}"
    assert await three.refused(f"v1beta2/{path}") == (404, "NotFound", message)


async def test_metric_with_several_series_on_a_node_has_no_value(three):
    three.report("node-a", several={"load": 3})
    assert (await three.refused("v1beta2/nodes/node-a/load"))[2].endswith("3 series of it")


async def test_metric_selector_that_requires_a_label_matches_nothing(three):
    both = await three.items("v1beta2/nodes/*/load", metricLabelSelector="!device")
    assert set(both) == {"node-a", "node-b"}
    refused = await three.refused("v1beta2/nodes/*/load", metricLabelSelector="device=sda")
    assert refused[0] == 404
    assert refused[2].endswith("readings have no labels for metricLabelSelector")


async def test_malformed_requests_are_rejected(three):
    assert (await three.refused("v1beta2/nodes/*/load", labelSelector="a=b=c"))[:2] == (
        400,
        "BadRequest",
    )
    assert (await three.refused("v1beta2/nodes/*/load", fieldSelector="metadata.name=x"))[0] == 400
    assert (await three.refused("v1beta2/nodes/%ff/load"))[0] == 400
    assert (await three.refused("v1beta3/nodes/*/load"))[0] == 404
    response, body = await three.get("v1beta2/nodes/*/load", method="POST")
    assert (response.status, json.loads(body)["reason"]) == (405, "MethodNotAllowed")


async def test_metrics_are_unavailable_until_all_inputs_are_there(three):
    three.missing = ["nodes"]
    assert await three.refused("v1beta2/nodes/*/load") == (
        503,
        "ServiceUnavailable",
        "waiting for nodes",
    )
    assert (await three.get("/readyz"))[0].status == 503
    assert (await three.get("/livez"))[0].status == 200
    assert (await three.get(APIS))[0].status == 200  # discovery needs only the policies
    three.missing, three.unready = [], ["this replica is stopping"]
    assert (await three.get("/readyz"))[1] == b"waiting for this replica is stopping\n"
    assert await three.items("v1beta2/nodes/node-a/load") == {"node-a": "1500m"}


async def test_discovery_is_unavailable_before_the_policies_are_known(three):
    three.served = None
    assert (await three.refused(APIS))[0] == 503


async def test_unchanged_discovery_is_not_sent_again(three):
    first, _ = await three.get(APIS, accept=V2)
    etag = dict(first.headers)["etag"]
    again, body = await three.get(APIS, accept=V2, if_none_match=f'W/"x", {etag}')
    assert (again.status, body) == (304, b"")
    assert again.content_type == V2
    three.served = ("health_metric",)
    changed, _ = await three.get(APIS, accept=V2, if_none_match=etag)
    assert changed.status == 200
    assert dict(changed.headers)["etag"] != etag


async def test_requests_are_counted(three):
    await three.get("v1beta2/nodes/*/load")
    await three.get("v1beta2/nodes/*/unknown")
    await three.get(APIS)
    counted = "plimsoll_custom_metrics_requests_total"
    assert three.count(counted, resource="nodes", code="200") == 1
    assert three.count(counted, resource="nodes", code="404") == 1
    assert three.count(counted, resource="discovery", code="200") == 1
