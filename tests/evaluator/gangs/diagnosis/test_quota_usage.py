"""What a quota charges for a pod, as kube-apiserver 1.36 charged it (tests/cluster compares the same pods)."""

from fractions import Fraction

import msgspec
import pytest

from evaluator.gangs.diagnosis.quota_usage import Member, charge


def container(requests=None, limits=None, **more):
    return {"resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def charged(**spec):
    body = {"spec": spec}
    found = charge(msgspec.json.decode(msgspec.json.encode(body), type=Member))
    return {name: value for name, value in found.items() if "pods" not in name}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {}),
        (
            {"containers": [container({"cpu": "500m"}), container({"cpu": "1"}, {"cpu": "2"})]},
            {"cpu": "3/2", "requests.cpu": "3/2", "limits.cpu": "2"},
        ),
        (
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "3"}, {"memory": "5"})],
            },
            {"cpu": "3", "requests.cpu": "3", "limits.memory": "5"},
        ),
        (
            {
                "containers": [container({"cpu": "2"})],
                "initContainers": [
                    container({"cpu": "1"}, restartPolicy="Always"),
                    container({"cpu": "1"}),
                ],
            },
            {"cpu": "3", "requests.cpu": "3"},
        ),
        (
            {
                "containers": [container({"cpu": "1"}, {"cpu": "2"})],
                "overhead": {"cpu": "250m", "memory": "64"},
            },
            {
                "cpu": "5/4",
                "requests.cpu": "5/4",
                "memory": "64",
                "requests.memory": "64",
                "limits.cpu": "9/4",
            },
        ),
        (
            {
                "containers": [container({"cpu": "1", "memory": "7"})],
                "resources": {"requests": {"cpu": "4"}},
            },
            {"cpu": "4", "requests.cpu": "4", "memory": "7", "requests.memory": "7"},
        ),
        (
            {"containers": [container({"example.com/gpu": "2"}, {"example.com/gpu": "2"})]},
            {"requests.example.com/gpu": "2"},
        ),
        (
            {"containers": [container({"hugepages-2Mi": "4"}, {"hugepages-2Mi": "4"})]},
            {"hugepages-2Mi": "4", "requests.hugepages-2Mi": "4"},
        ),
        ({"containers": [container({"cpu": "lots"})]}, {}),
    ],
)
def test_it_is_the_most_that_is_needed_at_once(spec, expected):
    assert charged(**spec) == {name: Fraction(value) for name, value in expected.items()}


def test_the_pod_itself_counts_once():
    found = charge(Member())
    assert found == {"pods": 1, "count/pods": 1}
