"""The pods that are known, with and without a policy, followed as they change and compared with the sandbox's scheduler."""

import json
import random

import msgspec
import pytest

from evaluator.core.cache.cluster import decode_pod
from evaluator.core.model import pod_record
from evaluator.features.evictions import successors
from evaluator.features.evictions.neighbours import Neighbours
from evaluator.features.evictions.successors import KnownPods
from sandbox.scheduler import neighbours as scheduler
from tests.evaluator.features.evictions.test_plan import node

HOST = "kubernetes.io/hostname"
ZONES = {"a": "east", "b": "east", "c": "west", "d": "west"}


def body(name, on, app="web", *, namespace="ns", terms=(), spread=(), port=0, leaving=False):
    """A Pod as the API server has it."""
    ports = [{"containerPort": 80, "hostPort": port, "protocol": "TCP"}] if port else []
    meta = {"name": name, "namespace": namespace, "uid": name, "labels": {"app": app}}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}
    return {
        "metadata": meta,
        "spec": {
            "nodeName": on,
            "containers": [{"name": "c", "ports": ports}],
            **({"affinity": affinity} if terms else {}),
            "topologySpreadConstraints": [*spread],
        },
        "status": {"phase": "Running"},
    }


def record(pod):
    return pod_record.decode(msgspec.Raw(json.dumps(pod).encode()), labels=True, apart=True)


def term(app="web", key=HOST, **more):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def skew(app="web", key=HOST, most=1):
    return {
        "maxSkew": most,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


NODES = {name: node(name, labels={HOST: name, "zone": zone}) for name, zone in ZONES.items()}


def known(*pods):
    """All these pods, of which none has a policy."""
    made = Neighbours()
    for pod in pods:
        made.record_changed(None, record(pod))
    return KnownPods(made, NODES)


def obstacle(leaving, *others, among="bcd"):
    pod = decode_pod(json.dumps(leaving).encode())
    return known(leaving, *others).obstacle(pod, [*among])


@pytest.mark.parametrize(
    ("leaving", "others", "why"),
    [
        (body("web", "a", terms=[term("db")]), [body("db", "b", "db")], successors.ANTI_AFFINITY),
        (body("web", "a"), [body("db", "b", "db", terms=[term()])], successors.ANTI_AFFINITY),
        (body("web", "a"), [body("db", "b", "db", namespace="x", terms=[term(namespaces=["ns"])])], successors.ANTI_AFFINITY),
        (body("web", "a"), [body("db", "b", "db", namespace="x", terms=[term()])], ""),
        (body("web", "a", port=80), [body("db", "b", "db", port=80)], successors.PORTS),
        (body("web", "a", spread=[skew()]), [body("w", "b")], successors.SPREAD),
        (body("web", "a"), [body("db", "b", "db", terms=[term()], leaving=True)], ""),
    ],
)  # fmt: skip
def test_pods_without_a_policy_count(leaving, others, why):
    assert obstacle(leaving, *others, among="b") == why


def test_nothing_is_left_of_pods_that_are_gone():
    made, one = Neighbours(), record(body("web", "a", terms=[term()], port=80))
    done = record({**body("web", "a", terms=[term()], port=80), "status": {"phase": "Succeeded"}})
    made.record_changed(None, one)
    made.record_changed(one, one)
    made.record_changed(one, done)
    made.record_changed(done, None)
    assert made == Neighbours()


def test_nobody_leaves_until_all_pods_are_listed():
    pod = decode_pod(json.dumps(body("web", "a")).encode())
    unlisted = KnownPods(Neighbours(), NODES, complete=lambda: False)
    assert unlisted.obstacle(pod, ["b"]) == successors.UNLISTED


def random_pods(rng):
    for number in range(rng.randint(1, 8)):
        keys = [HOST, "zone", "rack"]
        terms = [term(rng.choice("xyz"), rng.choice(keys)) for _ in range(rng.choice((0, 0, 1)))]
        if terms and rng.random() < 0.3:
            terms[0]["namespaces"] = [rng.choice(("ns", "other"))]
        spread = [skew(rng.choice("xyz"), rng.choice(keys[:2]), rng.choice((1, 2)))]
        yield body(
            f"p{number}",
            rng.choice([*ZONES]),
            rng.choice("xyz"),
            namespace=rng.choice(("ns", "ns", "other")),
            terms=terms,
            spread=spread if rng.random() < 0.3 else (),
            port=rng.choice((0, 0, 80)),
            leaving=rng.random() < 0.1,
        )


@pytest.mark.parametrize("seed", range(300))
def test_obstacles_are_those_of_a_scheduler(seed):
    """Without the pod itself, and without pods that leave: a scheduler's node is free as soon as they have ended."""
    pods = [*random_pods(random.Random(seed))]
    leaving, *others = pods
    leaving["metadata"].pop("deletionTimestamp", None)
    placed = [
        (one["spec"]["nodeName"], one)
        for one in others
        if "deletionTimestamp" not in one["metadata"]
    ]
    nodes = {
        name: {"metadata": {"name": name, "labels": {HOST: name, "zone": zone}}}
        for name, zone in ZONES.items()
    }
    among = [name for name in ZONES if name != leaving["spec"]["nodeName"]]
    free = [n for n in among if not scheduler.obstacle(leaving, nodes[n], placed, nodes)]
    assert bool(obstacle(leaving, *others, among=among)) is not bool(free)
