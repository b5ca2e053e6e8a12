"""Free capacity of nodes, and the scheduler's message without any."""

from fractions import Fraction

import pytest

from sandbox.scheduler.fitting import fit, message, requests, usage


def asks(**amounts):
    return {"requests": amounts}


def test_requests_are_summed_over_containers_and_a_limit_alone_is_a_request(pod):
    one = pod(
        resources={"requests": {"cpu": "100m"}, "limits": {"telemetry/scheduling": 1, "cpu": "1"}}
    )
    one["spec"]["containers"].append({"name": "d", "resources": asks(cpu="50m", memory="1Gi")})
    assert requests(one) == {
        "cpu": Fraction(15, 100),
        "memory": 2**30,
        "telemetry/scheduling": 1,
        "pods": 1,
    }


def test_larger_init_container_request_counts_instead(pod):
    one = pod(resources=asks(cpu="1"), initContainers=[{"name": "i", "resources": asks(cpu="3")}])
    assert requests(one)["cpu"] == 3


def test_sidecar_counts_with_containers_and_later_init_containers(pod):
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": asks(cpu="1")}
    hungry = {"name": "i", "resources": asks(cpu="3")}
    running = asks(cpu="2.5")
    assert requests(pod(resources=running, initContainers=[sidecar]))["cpu"] == Fraction(7, 2)
    assert requests(pod(resources=running, initContainers=[sidecar, hungry]))["cpu"] == 4
    assert requests(pod(resources=running, initContainers=[hungry, sidecar]))["cpu"] == Fraction(
        7, 2
    )


def test_overhead_counts(pod):
    assert requests(pod(resources=asks(cpu="1"), overhead={"cpu": "250m"}))["cpu"] == Fraction(5, 4)


def test_finished_pod_uses_nothing(pod):
    done = pod("done", resources=asks(cpu="1"), status={"phase": "Succeeded"})
    live = pod("live", resources=asks(cpu="1"), status={"phase": "Running"})
    assert usage([("node-a", done), ("node-a", live)]) == {"node-a": {"cpu": 1, "pods": 1}}


@pytest.mark.parametrize(
    ("wanted", "in_use", "reasons"),
    [
        ({"cpu": "4"}, {}, ()),
        ({"cpu": "4001m"}, {}, ("Insufficient cpu",)),
        ({"cpu": "1"}, {"cpu": Fraction(7, 2)}, ("Insufficient cpu",)),
        ({"cpu": "5", "memory": "9Gi"}, {}, ("Insufficient cpu", "Insufficient memory")),
        ({"telemetry/scheduling": "1"}, {}, ("Insufficient telemetry/scheduling",)),
        ({"telemetry/scheduling": "0"}, {}, ()),
        ({}, {"pods": Fraction(110)}, ("Too many pods",)),
        ({"cpu": "0"}, {"cpu": Fraction(5)}, ()),
    ],
)
def test_insufficient_resources_are_reported(pod, node, wanted, in_use, reasons):
    found = fit(pod(resources={"requests": wanted}), [node()], {"node-a": in_use})
    assert found.refused == ({"node-a": reasons} if reasons else {})
    assert len(found.nodes) == (not reasons)


def test_nodes_keep_their_order(pod, node):
    nodes = [node("b"), node("a"), node("c", spec={"unschedulable": True})]
    found = fit(pod(), nodes, {})
    assert [one["metadata"]["name"] for one in found.nodes] == ["b", "a"]
    assert found.refused == {"c": ("node(s) were unschedulable",)}


@pytest.mark.parametrize(
    ("total", "refusals", "text"),
    [
        (
            3,
            [
                ["node(s) didn't match Pod's node affinity/selector"],
                ["demo-policy: health_metric Equals 1"],
                ["node(s) didn't match Pod's node affinity/selector"],
            ],
            "0/3 nodes are available: 1 demo-policy: health_metric Equals 1, "
            "2 node(s) didn't match Pod's node affinity/selector.",
        ),
        (
            1,
            [["Insufficient cpu", "Insufficient memory"]],
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
        ),
        (2, [], "0/2 nodes are available:"),
        (0, [], "no nodes available to schedule pods"),
    ],
)
def test_rejection_message_is_that_of_kube_scheduler(total, refusals, text):
    assert message(total, refusals) == text
