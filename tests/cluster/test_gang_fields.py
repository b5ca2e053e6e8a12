"""Gang fields decoded from a pod agree with the API server: QoS class, requests and constraints."""

import copy

import msgspec
import pytest

from evaluator.core.model.requests import amounts
from evaluator.features.gangs.core import labels
from evaluator.features.gangs.core.membership import QoS

pytestmark = pytest.mark.e2e

CLASSES = {
    "Guaranteed": QoS.GUARANTEED,
    "Burstable": QoS.BURSTABLE,
    "BestEffort": QoS.BEST_EFFORT,
}
WHOLE = {"cpu": "100m", "memory": "64Mi"}
GATED = [{"name": "plimsoll.io/gang"}]


def containers(*resources):
    return [
        {"name": f"c{number}", "image": "none", "resources": found}
        for number, found in enumerate(resources)
    ]


def both(**found):
    return {"requests": found, "limits": found}


def pod_of(*resources, init=()):
    spec = {"containers": containers(*resources)}
    starters = [one | {"name": f"i{one['name']}"} for one in containers(*init)]
    return spec | ({"initContainers": starters} if starters else {})


def read(pod):
    return labels.decode(msgspec.json.encode(pod))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(pod_of({}), id="no resources"),
        pytest.param(pod_of({"requests": {"cpu": "0"}}), id="zero"),
        pytest.param(pod_of({"limits": {"example.com/fpga": "1"}}), id="other"),
        pytest.param(pod_of({"limits": {"ephemeral-storage": "1Gi"}}), id="disk"),
        pytest.param(pod_of(both(**WHOLE)), id="whole"),
        pytest.param(pod_of({"limits": WHOLE}), id="limits"),
        pytest.param(pod_of({"requests": {"cpu": "0.1"}, "limits": WHOLE}), id="spelled"),
        pytest.param(pod_of({"requests": WHOLE}), id="requests"),
        pytest.param(pod_of(both(cpu="1")), id="cpu alone"),
        pytest.param(pod_of(both(**WHOLE), {}), id="one without"),
        pytest.param(pod_of(both(**WHOLE), init=[{}]), id="init without"),
        pytest.param(pod_of(both(**WHOLE), init=[both(**WHOLE)]), id="init with"),
        pytest.param(pod_of({}, init=[{"limits": {"memory": "1Gi"}}]), id="init alone"),
    ],
)
async def test_computed_qos_class_equals_that_of_the_api_server(world, spec):
    pod = await world.add_pod("web", schedulingGates=GATED, **spec)
    told = CLASSES[pod["status"].pop("qosClass")]
    assert read(pod).extra.qos is told


async def test_limits_count_as_requests_and_all_gang_fields_are_decoded(world):
    spec = pod_of({"limits": WHOLE | {"example.com/fpga": "2", "telemetry/scheduling": "1"}})
    selector = {"nodeSelector": {"disk": "ssd"}}
    created = await world.add_pod("web", "cool", schedulingGates=GATED, **spec, **selector)
    pod = read(created)
    assert amounts(pod.requests) == {"cpu": 100, "memory": 64 * 2**20, "pods": 1}
    assert pod.others == (("example.com/fpga", 2),)
    assert pod.problems == ()
    about = pod.extra
    assert (about.gated, about.foreign, about.admitted, about.native) == (True, (), None, False)
    assert about.policy.name == "cool"
    assert b"ssd" in about.where.constraints
    assert pod.created is not None
    elsewhere = copy.deepcopy(created)
    elsewhere["spec"]["nodeSelector"]["disk"] = "hdd"
    assert read(elsewhere).extra.where != about.where
