"""The evaluator's custom metrics API behind an API server, and the controllers that use it."""

import pytest

from sandbox.envtest import ControlPlane, NoControlPlaneError
from tests.cluster.custom_metrics.aggregation import Api

CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "horizontal-pod-autoscaler-controller",
    "namespace-controller",
)
EAGER = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=1s",
)


@pytest.fixture
def real(plane):
    if not isinstance(plane.server, ControlPlane):
        pytest.skip("the sandbox has no tokens, RBAC, autoscalers or x509 messages of Go")


@pytest.fixture
async def api(world, tmp_path):
    if world.plane.server is None:
        pytest.skip("a cluster's aggregation layer does not reach this machine")
    made = Api(world, tmp_path)
    made.rotate(f"front-proxy-ca-{world.suffix}")
    yield made
    await made.unregister()
    made.port.close()


@pytest.fixture
async def controllers(real, world):
    """kube-controller-manager with what Deployments, autoscalers and namespaces need."""
    try:
        with world.plane.server.controllers(*CONTROLLERS, flags=EAGER) as is_up:
            await world.eventually(is_up)
            yield
    except NoControlPlaneError as error:
        pytest.skip(str(error))
