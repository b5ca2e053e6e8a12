"""A pod whose volume no other node has stays; so does one whose volumes cannot be read."""

import pytest

from evaluator.core.kube.transport import KubeError
from evaluator.core.model.apart import Apart
from evaluator.features.evictions import volumes
from tests.evaluator.features.evictions.test_plan import node, pod

HOST = "kubernetes.io/hostname"
NODES = {name: node(name, labels={HOST: name}) for name in ("a", "b", "c")}


class Volumes:
    """An API server with a claim whose volume can be used from some nodes; from all, if none are named."""

    def __init__(self, *nodes, error=None, bound=True):
        self.nodes, self.error, self.bound = nodes, error, bound

    async def read_claim(self, namespace, name):
        if self.error:
            raise self.error
        assert (namespace, name) == ("ns", "data")
        return {"spec": {"volumeName": "v"} if self.bound else {}}

    async def read_volume(self, name):
        expression = {"key": HOST, "operator": "In", "values": [*self.nodes]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        return {"spec": {"nodeAffinity": {"required": required}} if self.nodes else {}}


@pytest.mark.parametrize(
    ("api", "why"),
    [
        (Volumes("a"), "volumes such as local ones are on no other node that is eligible"),
        (Volumes("a", "c"), ""),
        (Volumes(), ""),
        (Volumes("a", bound=False), ""),
        (Volumes(error=KubeError(403, "forbidden")), "volumes cannot be read: forbidden"),
    ],
)
async def test_volumes_keep_a_pod_that_no_other_node_can_take(api, why):
    leaving = pod(on="a", apart=Apart(claims=("data",)))
    leaving.spec.apart = Apart(claims=("data",))
    assert await volumes.obstacle(leaving, ["b", "c"], NODES, api) == why


async def test_pod_without_claims_reads_nothing():
    assert await volumes.obstacle(pod(on="a"), ["b"], NODES, None) == ""
