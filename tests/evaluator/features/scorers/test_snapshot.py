"""Requested resources: what counts, and the moments over all pods."""

import numpy as np
import pytest

from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import REMEMBERED, WINDOW, Demands, demand

MI, GI = 2.0**20, 2.0**30


def pod(cpu=100.0, memory=128.0, uid="", **others):
    requests = {Resource.CPU: cpu, Resource.MEMORY: memory * MI, **others}
    return PodView(uid=uid, requests=requests)


def seen(*pods):
    demands = Demands()
    for one in pods:
        demands = demands.seen(one)
    return demands


@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        ({}, (10, 16, 1, 0, 0)),
        ({Resource.CPU: 5.0}, (10, 16, 1, 0, 0)),
        ({Resource.CPU: 11.0, Resource.MEMORY: MI - 1}, (11, 16, 1, 0, 0)),
        ({Resource.MEMORY: MI}, (10, 1, 1, 0, 0)),
        ({Resource.MEMORY: 1.5 * MI, Resource.PODS: 7.0}, (10, 1.5, 1, 0, 0)),
        ({Resource.GPU: 2.0, Resource.EPHEMERAL_STORAGE: 3.5 * GI}, (10, 16, 1, 2, 3.5)),
        ({Resource.CPU: -1.0, Resource.MEMORY: -MI}, (10, 16, 1, 0, 0)),
    ],
)
def test_pod_without_requests_has_a_minimum_demand(asked, counted):
    assert demand(PodView(requests=asked)).tolist() == list(counted)


def test_invalid_quantity_is_not_zero():
    assert np.isnan(demand(pod(memory=np.nan))[1])
    demands = seen(pod())
    assert demands.seen(pod(cpu=np.nan)) is demands


def test_huge_request_is_clamped_at_the_limit_of_kubernetes():
    assert demand(pod(cpu=np.inf, memory=1e300))[:2].tolist() == [2.0**63, 2.0**63]
    assert np.isfinite(seen(pod(), pod(cpu=1e300)).covariance).all()


def test_nothing_is_known_before_the_first_pod():
    assert Demands().mean is None
    assert Demands().covariance is None


def test_mean_and_covariance_are_exact_for_few_pods():
    pods = [pod(100 + 37 * i % 300, 64 + i * i) for i in range(WINDOW)]
    table = np.array([demand(one) for one in pods])
    found = seen(*pods)
    assert found.count == WINDOW
    np.testing.assert_allclose(found.mean, table.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.covariance, np.cov(table.T, bias=True), rtol=1e-9, atol=1e-9)


def test_old_demand_fades_as_in_the_original():
    pods = [pod(1000 if i < 150 else 100 + i) for i in range(400)]
    mean, square = 0.0, 0.0
    for i, one in enumerate(pods):
        share, cpu = 1 / min(i + 1, WINDOW), one.requests[Resource.CPU]
        mean, square = (1 - share) * mean + share * cpu, (1 - share) * square + share * cpu**2
    found = seen(*pods)
    assert found.mean[0] == pytest.approx(mean, rel=1e-12)
    assert found.covariance[0, 0] == pytest.approx(square - mean**2, rel=1e-9)


def test_small_differences_of_large_requests_are_kept():
    found = seen(pod(memory=2.0**40), pod(memory=2.0**40 + 2))
    assert found.covariance[1, 1] == 1.0


def test_repeated_attempt_is_one_request():
    first = pod(uid="1")
    demands = seen(first, pod(500, uid="2"))
    assert demands.seen(first) is demands
    assert demands.seen(pod(uid="3")).count == 3
    named = PodView(name="default/web")
    assert seen(named, named).count == 1


def test_pod_without_a_name_is_a_new_one_each_time():
    assert seen(pod(), pod()).count == 2


def test_remembered_pods_are_bounded():
    found = seen(*(pod(uid=str(i)) for i in range(REMEMBERED + 10)))
    assert len(found.pods) == REMEMBERED
    assert found.seen(pod(uid="11")) is found
    assert found.seen(pod(uid="1")) is not found


def test_demand_is_immutable():
    before = seen(pod(100), pod(200))
    kept = before.mean.copy(), before.covariance.copy()
    before.seen(pod(4000, 4096))
    assert (before.mean == kept[0]).all()
    assert (before.covariance == kept[1]).all()
