"""The preempt verb leaves out the candidates that filter refuses, over real sockets."""

import json
from dataclasses import replace

import pytest

from evaluator.core.policy.decide import Decisions, NotReadyError
from tests.evaluator.core.placement.worlds import World
from tests.evaluator.features.extender.test_policies import BROKEN, NODES, is_error

PATH = "/scheduler/preempt"


def body(policy="demo-policy", names=NODES, *, field="NodeNameToMetaVictims", namespace="ns"):
    labels = {"telemetry-policy": policy} if policy else {}
    pod = {"metadata": {"name": "web", "namespace": namespace, "uid": "w", "labels": labels}}
    uid = (
        (lambda uid: {"UID": uid}) if "Meta" in field else (lambda uid: {"metadata": {"uid": uid}})
    )
    victims = {name: {"Pods": [uid(f"on-{name}")], "NumPDBViolations": 1} for name in names}
    return json.dumps({"Pod": pod, field: victims}).encode()


async def candidates(server, sent):
    reply = await server.post(PATH, sent)
    assert reply.status == 200, reply
    (found,) = json.loads(reply.body).values()
    assert all(
        one == {"Pods": [{"UID": f"on-{name}"}], "NumPDBViolations": 1}
        for name, one in found.items()
    )
    return list(found)


@pytest.mark.parametrize("field", ["NodeNameToVictims", "NodeNameToMetaVictims"])
async def test_violating_node_is_no_candidate(server, field):
    assert await candidates(server, body(field=field)) == ["node-a", "node-c"]
    assert server.counted("preempt", 200, "decided") == 1
    refused = "plimsoll_extender_preemption_nodes_refused_total"
    assert server.registry.get_sample_value(refused) == 1


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [("", "no_policy_label"), ("unknown", "policy_not_found"), ("empty", "no_rules")],
)
async def test_all_candidates_remain_without_a_policy(server, policy, outcome):
    assert await candidates(server, body(policy)) == list(NODES)
    assert server.counted("preempt", 200, outcome) == 1


async def test_observed_policy_leaves_all_candidates(extender, decisions):
    observed = {
        key: replace(one, policy=replace(one.policy, observed_by="--observe"))
        for key, one in decisions.policies.items()
    }
    server = await extender(Decisions(decisions.table, observed))
    assert await candidates(server, body()) == list(NODES)


async def test_not_ready_is_a_503_so_that_no_pod_is_deleted(extender):
    def not_yet():
        raise NotReadyError("not ready: waiting for nodes")

    server = await extender(not_yet)
    assert is_error(await server.post(PATH, body()), 503) == "not ready: waiting for nodes"


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
async def test_malformed_body_is_a_400(server, broken):
    is_error(await server.post(PATH, broken), 400)
    assert server.counted("preempt", 400, "refused") == 1


async def test_pods_placed_since_the_reading_count_as_for_filter(extender):
    """And a candidate is no answer that places the pod: it counts nowhere."""
    world = World([2.0, 2.0, 2.0], most=3)
    server = await extender(
        lambda: world.decisions, placements=world.placements, clock=lambda: world.now
    )
    sent = body(world.policy.key.name, world.nodes, namespace=world.policy.key.namespace)
    for uid in ("p", "q", "r", "s", "t"):
        world.bind(uid, world.nodes[0], cpu=400)
    assert await candidates(server, sent) == list(world.nodes[1:])
    assert world.placements.ledger.unconfirmed() == 0
