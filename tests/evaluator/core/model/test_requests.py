"""Effective requests of a pod, compared with kube-scheduler and kube-safe-scheduler."""

import json
from typing import Any

import pytest

from evaluator.core.model.pod_spec_view import PodSpecView, decode
from evaluator.core.model.requests import amounts, effective, others, pod_view
from evaluator.core.model.resources import Resource

MI = 2**20


def pod(spec: dict[str, Any], **meta: Any) -> PodSpecView:
    metadata = {"name": "web", "namespace": "shop", **meta}
    return decode(json.dumps({"metadata": metadata, "spec": spec}).encode())


def container(cpu: Any = None, memory: Any = None, **more: Any) -> dict[str, Any]:
    asked = {"cpu": cpu, "memory": memory}
    return {"resources": {"requests": {k: v for k, v in asked.items() if v is not None}}, **more}


def sidecar(cpu: Any = None, memory: Any = None) -> dict[str, Any]:
    return container(cpu, memory, restartPolicy="Always")


def counted(spec: dict[str, Any]) -> tuple[float, float]:
    """CPU (milli) and memory (MiB)."""
    found = effective(pod(spec))
    assert found.problems == ()
    requests = amounts(found.requests)
    assert requests[Resource.PODS] == 1
    return requests.get(Resource.CPU, 0), requests.get(Resource.MEMORY, 0) / MI


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param({}, (0, 0), id="no requests"),
        pytest.param({"containers": [{}, container()]}, (0, 0), id="empty requests"),
        pytest.param(
            {"containers": [container("100m", "64Mi"), container("1", "1Gi")]},
            (1100, 1088),
            id="sum over containers",
        ),
        pytest.param(
            {
                "containers": [container("500m", "64Mi")],
                "initContainers": [container("1", "32Mi"), container("700m", "128Mi")],
            },
            (1000, 128),
            id="init containers run sequentially",
        ),
        pytest.param(
            {
                "containers": [container("500m", "64Mi")],
                "initContainers": [sidecar("200m", "16Mi"), container("600m")],
            },
            (800, 80),
            id="init container beside earlier sidecars",
        ),
        pytest.param(
            {
                "containers": [container("100m")],
                "initContainers": [container("900m"), sidecar("300m")],
            },
            (900, 0),
            id="init container without later sidecars",
        ),
        pytest.param(
            {"containers": [container("1", "64Mi")], "overhead": {"cpu": "250m", "memory": "64Mi"}},
            (1250, 128),
            id="overhead is added",
        ),
        pytest.param(
            {
                "containers": [container("1", "64Mi")],
                "resources": {"requests": {"cpu": "3", "nvidia.com/gpu": "7"}},
                "overhead": {"cpu": "250m"},
            },
            (3250, 64),
            id="pod-level cpu and memory override containers",
        ),
        pytest.param(
            {"containers": [container("0.1"), container("100u"), container("57e-2"), container(2)]},
            (2671, 0),
            id="quantities are rounded up to a milli-CPU",
        ),
    ],
)
def test_effective_requests_are_as_kube_scheduler_counts(spec: Any, requests: Any) -> None:
    assert counted(spec) == requests


def test_scorers_count_gpus_and_ephemeral_storage_and_no_extended_resources() -> None:
    asked = {"nvidia.com/gpu": "2", "ephemeral-storage": "1Gi", "example.com/fpga": "1"}
    found = effective(pod({"containers": [{"resources": {"requests": asked}}] * 2}))
    assert others(pod({"containers": [{"resources": {"requests": asked}}] * 2}))[0] == (
        ("example.com/fpga", 2),
    )
    assert amounts(found.requests) == {
        Resource.GPU: 4,
        Resource.EPHEMERAL_STORAGE: 2 * 2**30,
        Resource.PODS: 1,
    }


@pytest.mark.parametrize("bad", ["", "much", "-1", "1e999", None, [], {}, "1" * 5000, True])
def test_invalid_quantity_counts_as_zero_and_names_the_pod(bad: Any) -> None:
    found = effective(
        pod({"containers": [{"resources": {"requests": {"cpu": bad, "memory": "1Mi"}}}]})
    )
    assert amounts(found.requests) == {Resource.MEMORY: MI, Resource.PODS: 1}
    (problem,) = found.problems
    assert problem.startswith("pod shop/web: its request for cpu is ")
    assert len(problem) < 300


def test_invalid_pod_level_quantity_falls_back_to_containers() -> None:
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "x"}}}
    found = effective(pod(spec))
    assert amounts(found.requests)[Resource.CPU] == 1000
    assert len(found.problems) == 1


def test_huge_requests_are_decoded() -> None:
    found = effective(pod({"containers": [container("9E", "9e300")] * 3}))
    assert amounts(found.requests)[Resource.MEMORY] == 3.0 * (2**63 - 1)
    assert found.problems == ()


def fpgas(count: Any = None, **more: Any) -> dict[str, Any]:
    asked = {"example.com/fpga": count} if count is not None else {}
    return {"resources": {"requests": asked}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, (), id="no requests"),
        pytest.param({"containers": [container("1", "1Gi")]}, (), id="scorer resources only"),
        pytest.param({"containers": [fpgas("0")]}, (), id="none"),
        pytest.param(
            {"containers": [fpgas("1"), fpgas(2), container()]},
            (("example.com/fpga", 3),),
            id="sum over containers",
        ),
        pytest.param(
            {"containers": [fpgas("1")], "initContainers": [fpgas("3"), fpgas("2")]},
            (("example.com/fpga", 3),),
            id="init containers run sequentially",
        ),
        pytest.param(
            {
                "containers": [fpgas("1")],
                "initContainers": [fpgas("1", restartPolicy="Always"), fpgas("2")],
            },
            (("example.com/fpga", 3),),
            id="beside earlier sidecars",
        ),
        pytest.param(
            {"containers": [fpgas("1")], "overhead": {"example.com/fpga": "1"}},
            (("example.com/fpga", 2),),
            id="overhead is added",
        ),
        pytest.param(
            {
                "containers": [
                    {"resources": {"requests": {"hugepages-2Mi": "2Mi", "example.com/fpga": 1}}}
                ],
                "resources": {"requests": {"hugepages-2Mi": "4Mi", "example.com/fpga": 9}},
            },
            (("example.com/fpga", 1), ("hugepages-2Mi", 4 * MI)),
            id="pod-level huge pages",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"telemetry/scheduling": "1"}}}]},
            (),
            id="extender-managed resource",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"storage": "1Gi"}}}]},
            (),
            id="no node resource",
        ),
    ],
)
def test_extended_resources_are_counted_separately(spec: Any, expected: Any) -> None:
    assert others(pod(spec)) == (expected, ())


def test_ignored_resources_are_not_counted() -> None:
    more = {"a/b": "1", "telemetry/scheduling": "1"}
    spec = {"containers": [fpgas("1"), fpgas(None, resources={"requests": more})]}
    assert others(pod(spec), frozenset({"a/b"})) == ((("example.com/fpga", 1),), ())


def test_invalid_extended_quantity_counts_as_zero_and_is_reported() -> None:
    found, problems = others(pod({"containers": [fpgas("many"), fpgas("2")]}))
    assert found == (("example.com/fpga", 2),)
    (problem,) = problems
    assert problem.startswith("pod shop/web: its request for example.com/fpga is ")


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"podtype": "batch", "app": "a", "name": "n"}, "batch"),
        ({"app": "a", "name": "n"}, "a"),
        ({"name": "n"}, "n"),
        ({"app": ""}, "web"),
        (None, "web"),
    ],
)
def test_scorer_view_of_a_pod_is_built(labels: Any, kind: str) -> None:
    view, problems = pod_view(pod({"containers": [container("1")]}, uid="u", labels=labels))
    assert (view.name, view.uid, view.kind, problems) == ("shop/web", "u", kind, ())
    assert view.requests == {Resource.CPU: 1000, Resource.PODS: 1}


def resized(
    *, spec: str, allocated: str = "", actual: str = "", sidecar_too: bool = False, **status: Any
) -> float:
    """Memory (MiB) of a pod whose status differs from its spec."""
    said = {"name": "c", "resources": {"requests": {"memory": actual}} if actual else None}
    said |= {"allocatedResources": {"memory": allocated} if allocated else None}
    main = container("1", spec, name="c")
    key = "containers"
    if sidecar_too:
        key, main = "initContainers", main | {"restartPolicy": "Always"}
    statuses = "initContainerStatuses" if sidecar_too else "containerStatuses"
    body = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {key: [main]},
        "status": {statuses: [said], **status},
    }
    found = effective(decode(json.dumps(body).encode()))
    assert found.problems == ()
    return amounts(found.requests)[Resource.MEMORY] / MI


INFEASIBLE = [
    {"resize": "Infeasible"},
    {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]},
]
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


@pytest.mark.parametrize("sidecar_too", [False, True])
def test_the_largest_of_spec_allocation_and_status_counts_during_a_resize(
    sidecar_too: bool,
) -> None:
    where = {"sidecar_too": sidecar_too}
    assert resized(spec="1Mi", allocated="1Mi", actual="14Mi", **where) == 14
    assert resized(spec="1Mi", allocated="9Mi", actual="2Mi", **where) == 9
    assert resized(spec="5Mi", allocated="1Mi", actual="1Mi", **where) == 5
    assert resized(spec="5Mi", allocated="1Mi", actual="1Mi", **DEFERRED, **where) == 5
    assert resized(spec="5Mi", **where) == 5
    assert resized(spec="1Mi", actual="1048576", **where) == 1


@pytest.mark.parametrize("status", INFEASIBLE)
def test_spec_of_an_infeasible_resize_does_not_count(status: Any) -> None:
    assert resized(spec="500Mi", allocated="3Mi", actual="2Mi", **status) == 3
    assert resized(spec="500Mi", **status) == 500, "a kubelet that reports no resources"


def test_pod_level_requests_are_resized_likewise() -> None:
    body = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [container()], "resources": {"requests": {"memory": "1Mi"}}},
        "status": {"resources": {"requests": {"memory": "7Mi"}}},
    }
    found = effective(decode(json.dumps(body).encode()))
    assert amounts(found.requests)[Resource.MEMORY] == 7 * MI


def test_an_infeasible_resize_keeps_resources_that_cannot_be_resized() -> None:
    asked = {"requests": {"cpu": "99", "nvidia.com/gpu": "2"}}
    body = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "resources": asked}]},
        "status": {
            "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}],
            **INFEASIBLE[0],
        },
    }
    found = amounts(effective(decode(json.dumps(body).encode())).requests)
    assert (found[Resource.CPU], found[Resource.GPU]) == (1000, 2)
